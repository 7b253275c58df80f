// Greys out the servers that lack what is needed, and names the fastest of the others.
const form = document.getElementById("needs");
const answer = document.getElementById("answer");

function choose() {
  const needs = Array.from(form.querySelectorAll("input:checked"), (input) => input.value);
  const best = [];
  for (const group of document.querySelectorAll("#servers tbody")) {
    const rows = Array.from(group.querySelectorAll("tr[data-needs]"));
    const fits = (row) => needs.every((need) => row.dataset.needs.split(" ").includes(need));
    rows.forEach((row) => row.classList.toggle("unfit", !fits(row)));
    const first = rows.find(fits);
    if (first) {
      const [cycle, , handOver] = Array.from(first.querySelectorAll("td"), (cell) => cell.textContent);
      const title = group.querySelector(".group th").textContent.split(":")[0];
      best.push(`${title}: ${first.querySelector("th").textContent} (${cycle} a cycle, ${handOver} a hand-over)`);
    }
  }
  answer.textContent = best.length ? best.join(" · ") : "No server that was measured gives all of this.";
}

form.hidden = false;
form.addEventListener("change", choose);
choose();
