//! Reads what lock-core offers, and the functions of `onelock`, line by line from sources that rustfmt has formatted.
//! Implementations of traits are not read, nor are macros: there are none to call.

use std::collections::BTreeSet;

use super::Items;
use crate::documents::{files_below, read};
use crate::workspace::root;

const FACADE: &str = "onelock/src/lib.rs";
const CORE: &str = "lock-core/src";
/// The only public module of lock-core. Its public items belong to lock-core's API.
const CONTRACT: &str = "lock-core/src/driver/mod.rs";

/// Returns `function`, `Type::method`, `Enum::Variant`, `Enum::Variant.field`, `Struct.field`; a type that has none of
/// these is listed by its name.
pub(super) fn offered() -> Result<Items, String> {
    let mut core = Found::default();
    for path in files_below(&root().join(CORE), "rs")? {
        core.read(&read(&path)?);
    }
    let (mut contract, mut facade) = (Found::default(), Found::default());
    let text = read(&root().join(CONTRACT))?;
    contract.read(&text);
    let mut names = contract.names;
    names.extend(used(&text));
    names.extend(used(&read(&root().join(CORE).join("lib.rs"))?));
    if let Some(unknown) = names.difference(&core.names).next() {
        return Err(format!("{CORE} offers {unknown}, and defines it nowhere"));
    }
    facade.read(&read(&root().join(FACADE))?);
    let members: Items = core.items.into_iter().filter(|item| names.contains(owner(item))).collect();
    let bare = names.into_iter().filter(|name| !members.iter().any(|item| owner(item) == name));
    let bare: Vec<String> = bare.collect();
    Ok(members.into_iter().chain(bare).chain(facade.items).collect())
}

/// Returns whether it is an event or a field of one. These have a table of their own.
pub(super) fn is_of_events(item: &str) -> bool {
    owner(item) == "Event"
}

/// Returns the type that an item belongs to, or the item itself.
fn owner(item: &str) -> &str {
    item.split(['.', ':']).next().unwrap_or(item)
}

/// Returns the names behind each `pub use`.
fn used(text: &str) -> BTreeSet<String> {
    let uses = text.split("pub use ").skip(1).filter_map(|rest| rest.split(';').next());
    let lists = uses.map(|path| path.rsplit("::").next().unwrap_or(path));
    let names = lists.flat_map(|list| list.split(['{', '}', ','])).map(str::trim);
    names.filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

/// What was read from sources.
#[derive(Default)]
struct Found {
    /// Items that can be called, matched or read.
    items: Items,
    /// Types and functions, by their names alone.
    names: BTreeSet<String>,
}

/// The item that a line is inside of.
enum Within {
    Nothing,
    /// `impl Type {`: its functions belong to the type.
    Impl(String),
    Trait(String),
    Enum(String),
    Struct(String),
}

impl Found {
    /// Reads the text of a file up to its tests.
    fn read(&mut self, text: &str) {
        let mut within = Within::Nothing;
        let mut variant = String::new();
        for line in text.lines().take_while(|line| *line != "#[cfg(test)]") {
            let code = line.trim_start();
            match line.len() - code.len() {
                0 if !code.is_empty() => within = self.begin(code, within),
                4 => variant = self.member(code, &within).unwrap_or(variant),
                8 => {
                    if let (Within::Enum(of), Some(field)) = (&within, field(code)) {
                        self.items.insert(format!("{of}::{variant}.{field}"));
                    }
                }
                _ => {}
            }
        }
    }

    /// Reads a line without indentation. Returns what the following lines are inside of.
    fn begin(&mut self, code: &str, before: Within) -> Within {
        if let Some(rest) = code.strip_prefix("impl") {
            // In an implementation of a trait nothing is the type's own.
            let of = if rest.starts_with('<') {
                rest.split_once("> ").map(|(_, of)| of)
            } else {
                rest.strip_prefix(' ')
            };
            return match of {
                Some(of) if !rest.contains(" for ") => Within::Impl(name(of)),
                _ => Within::Nothing,
            };
        }
        let Some(rest) = code.strip_prefix("pub ") else {
            // A part of something on several lines: bounds, an attribute, the end of a signature.
            return if code == "}" { Within::Nothing } else { before };
        };
        let Some((kind, of)) = kind(rest) else { return before };
        self.names.insert(of.clone());
        match kind {
            "enum" => Within::Enum(of),
            "struct" if rest.ends_with('{') => Within::Struct(of),
            "trait" => Within::Trait(of),
            "struct" | "type" => Within::Nothing,
            _ => {
                self.items.insert(of);
                Within::Nothing
            }
        }
    }

    /// Reads a line with one level of indentation. Returns a variant's name, if it is one.
    fn member(&mut self, code: &str, within: &Within) -> Option<String> {
        let public = code.strip_prefix("pub ");
        match within {
            Within::Impl(of) => {
                let (_, member) = public.and_then(kind)?;
                self.items.insert(format!("{of}::{member}"));
            }
            Within::Trait(of) => {
                let (_, member) = kind(code)?;
                self.items.insert(format!("{of}::{member}"));
            }
            Within::Struct(of) => {
                self.items.insert(format!("{of}.{}", field(public?)?));
            }
            Within::Enum(of) if code.starts_with(char::is_uppercase) => {
                let variant = name(code);
                self.items.insert(format!("{of}::{variant}"));
                return Some(variant);
            }
            Within::Enum(_) | Within::Nothing => {}
        }
        None
    }
}

/// Returns the kind of a declaration behind `pub`, and its name.
fn kind(rest: &str) -> Option<(&'static str, String)> {
    let mut words = rest.split(' ').peekable();
    // `const` alone declares a constant; before `fn` it belongs to a function.
    while let Some(word) = words.next() {
        let next = words.peek().copied().unwrap_or_default();
        match word {
            "async" => {}
            "const" if next == "fn" => {}
            "fn" => return Some(("fn", name(next))),
            "const" => return Some(("const", name(next))),
            "struct" => return Some(("struct", name(next))),
            "enum" => return Some(("enum", name(next))),
            "trait" => return Some(("trait", name(next))),
            "type" => return Some(("type", name(next))),
            _ => return None,
        }
    }
    None
}

/// Returns the name in a line `field: Type,`.
fn field(code: &str) -> Option<String> {
    let (found, _) = code.split_once(": ")?;
    (!found.is_empty() && name(found) == found).then(|| found.to_owned())
}

/// Returns the identifier at the beginning of a text.
fn name(text: &str) -> String {
    text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "\
pub const MOST: usize = 3;
pub type Outcome = Result<(), Error>;
pub(crate) struct Hidden {
    pub within: u8,
}
pub struct Opaque(u8);
/// Words: `pub fn none`.
pub struct Shown {
    /// More.
    pub field: u8,
    secret: u8,
}
pub enum Kind<'a> {
    /// Nothing.
    Unit,
    Tuple(u8),
    Fields {
        /// Which.
        one: &'a str,
        two: u8,
    },
}
pub trait Seam {
    fn required(&self) -> u8;
    async fn provided(&self) {
        let inner: u8 = 0;
    }
}
impl<'a, T> Kind<'a> {
    pub fn called(
        self,
        argument: u8,
    ) -> u8 {
        0
    }
    pub const fn constant() -> u8 {
        0
    }
    pub async fn awaited(&self) {}
    pub(crate) fn hidden(&self) {}
    fn own(&self) {}
}
impl Seam for Opaque {
    fn required(&self) -> u8 {
        0
    }
}
pub async fn alone(
    url: &str,
) {
}
#[cfg(test)]
mod tests {
    pub fn of_a_test() {}
}
";

    #[test]
    fn what_is_public_is_found_and_nothing_else() {
        let mut found = Found::default();
        found.read(SOURCE);
        let expected = [
            "Kind::Fields",
            "Kind::Fields.one",
            "Kind::Fields.two",
            "Kind::Tuple",
            "Kind::Unit",
            "Kind::awaited",
            "Kind::called",
            "Kind::constant",
            "MOST",
            "Seam::provided",
            "Seam::required",
            "Shown.field",
            "alone",
        ];
        assert_eq!(found.items.iter().map(String::as_str).collect::<Vec<_>>(), expected);
        let names = ["Kind", "MOST", "Opaque", "Outcome", "Seam", "Shown", "alone"];
        assert_eq!(found.names.iter().map(String::as_str).collect::<Vec<_>>(), names);
    }

    #[test]
    fn what_is_used_is_found_over_several_lines() {
        let text = "mod a;\npub use crate::call::Call;\npub use a::{\n    LossReason,\n    MAX_NAME,\n};\nuse b::{Hidden};\n";
        let names: Vec<_> = used(text).into_iter().collect();
        assert_eq!(names, ["Call", "LossReason", "MAX_NAME"]);
    }

    #[test]
    fn items_belong_to_their_types() {
        assert_eq!(["Event::Lost.held", "Info.clock", "connect"].map(owner), ["Event", "Info", "connect"]);
        assert!(is_of_events("Event::Asked") && !is_of_events("EventKind::Asked"));
    }
}
