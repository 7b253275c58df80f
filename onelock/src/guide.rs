//! Compiles and runs the code of `docs/guide` together with the documentation's examples.

/// Makes an item of each page, so that an example that fails names its page.
macro_rules! pages {
    ($($item:ident = $page:literal;)+) => {
        $(
            #[doc = include_str!(concat!("../../docs/guide/", $page))]
            struct $item;
        )+
    };
}

pages! {
    Guide = "README.md";
    Choose = "choose.md";
    Connect = "connect.md";
    Hold = "hold.md";
    Lose = "lose.md";
    Fence = "fence.md";
    Cron = "cron.md";
    Scripts = "scripts.md";
    Recipes = "recipes.md";
    Workers = "workers.md";
    Testing = "testing.md";
    Operate = "operate.md";
    Move = "move.md";
    Others = "others.md";
    Questions = "questions.md";
}
