import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;

/** Runs the workloads of this project's benchmark with Curator's mutex. */
final class Bench {
    private Bench() {}

    /** Runs one workload. Returns the median cycle in microseconds, and cycles per second. */
    static String run(CuratorFramework client, String workload, double seconds) throws Exception {
        List<String> paths = paths(workload);
        ExecutorService threads = Executors.newFixedThreadPool(paths.size());
        try {
            long start = System.nanoTime();
            long end = start + (long) (seconds * 1e9);
            List<Future<List<Long>>> workers = new ArrayList<>();
            for (String path : paths) {
                workers.add(threads.submit(() -> work(new InterProcessMutex(client, path), end)));
            }
            List<Long> cycles = new ArrayList<>();
            for (Future<List<Long>> worker : workers) {
                cycles.addAll(worker.get());
            }
            return summary(cycles, System.nanoTime() - start);
        } finally {
            threads.shutdownNow();
        }
    }

    /** Returns one path for each worker. */
    private static List<String> paths(String workload) {
        switch (workload) {
            case "uncontended":
                return List.of("/bench-uncontended");
            case "one-name":
                return Collections.nCopies(8, "/bench-one-name");
            case "many-names":
                return IntStream.range(0, 64).mapToObj(n -> "/bench-many-names-" + n).collect(Collectors.toList());
            default:
                throw new IllegalArgumentException("no such workload: " + workload);
        }
    }

    private static List<Long> work(InterProcessMutex mutex, long end) throws Exception {
        List<Long> cycles = new ArrayList<>();
        for (long start = System.nanoTime(); start - end < 0; start = System.nanoTime()) {
            mutex.acquire();
            mutex.release();
            cycles.add(System.nanoTime() - start);
        }
        return cycles;
    }

    private static String summary(List<Long> cycles, long nanos) {
        if (cycles.isEmpty()) {
            throw new IllegalStateException("no cycle");
        }
        Collections.sort(cycles);
        long median = cycles.get(cycles.size() / 2) / 1000;
        return String.format(Locale.ROOT, "bench %d %.1f", median, cycles.size() / (nanos / 1e9));
    }
}
