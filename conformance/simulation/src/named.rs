//! Enums whose variants have names: in reports, and in the program's arguments.

/// Defines an enum, the list of its variants, and their names.
macro_rules! named {
    ($(#[$about:meta])* pub enum $type:ident { $($(#[$meaning:meta])* $variant:ident = $name:literal,)* }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $type {
            $($(#[$meaning])* $variant,)*
        }

        impl $type {
            /// All of them, in the order of reports.
            pub const ALL: [$type; [$($name,)*].len()] = [$($type::$variant,)*];
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(match self { $($type::$variant => $name,)* })
            }
        }
    };
}

pub(crate) use named;
