//! What lock-core offers, and the functions of `onelock` beside it, read line by line from sources that rustfmt has
//! written. Not read are implementations of traits, and macros: there are none to call.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::Items;
use crate::documents::{files, read};
use crate::workspace::root;

const FACADE: &str = "onelock/src/lib.rs";
const CORE: &str = "lock-core/src";
/// Whose public things are lock-core's: it is the one module that is public by itself.
const CONTRACT: &str = "lock-core/src/driver.rs";

/// `function`, `Type::method`, `Enum::Variant`, `Enum::Variant.field`, `Struct.field`; a type that has none of these by
/// its name.
pub(super) fn offered() -> Result<Items, String> {
    let mut core = Found::default();
    for path in sources(&root().join(CORE))? {
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

/// Events, and what is told with them, have a table of their own.
pub(super) fn is_of_events(item: &str) -> bool {
    owner(item) == "Event"
}

/// The type that it belongs to, or itself.
fn owner(item: &str) -> &str {
    item.split(['.', ':']).next().unwrap_or(item)
}

/// The names behind each `pub use`.
fn used(text: &str) -> BTreeSet<String> {
    let uses = text.split("pub use ").skip(1).filter_map(|rest| rest.split(';').next());
    let lists = uses.map(|path| path.rsplit("::").next().unwrap_or(path));
    let names = lists.flat_map(|list| list.split(['{', '}', ','])).map(str::trim);
    names.filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

/// All files of a crate.
fn sources(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let mut found = files(folder, "rs")?;
    for entry in folder.read_dir().map_err(|e| format!("{}: {e}", folder.display()))?.flatten() {
        if entry.path().is_dir() {
            found.extend(sources(&entry.path())?);
        }
    }
    Ok(found)
}

/// What was read of sources.
#[derive(Default)]
struct Found {
    /// What can be called, matched or read.
    items: Items,
    /// Types and functions, by their names alone.
    names: BTreeSet<String>,
}

/// What a line stands in.
enum Within {
    Nothing,
    /// `impl Type {`: functions are the type's.
    Impl(String),
    Trait(String),
    Enum(String),
    Struct(String),
}

impl Found {
    /// Reads a file up to its tests.
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

    /// A line at the beginning of which nothing stands: what those behind it stand in.
    fn begin(&mut self, code: &str, before: Within) -> Within {
        if let Some(rest) = code.strip_prefix("impl") {
            // Of a trait: nothing of it is the type's own.
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
            // What goes on over several lines: bounds, an attribute, the end of a signature.
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

    /// A line one step in; a variant's name, if it is one.
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

/// What a declaration behind `pub` declares, and its name.
fn kind(rest: &str) -> Option<(&'static str, String)> {
    let mut words = rest.split(' ').peekable();
    // `const` alone declares a constant, before `fn` it says something of a function.
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

/// `field: Type,`
fn field(code: &str) -> Option<String> {
    let (found, _) = code.split_once(": ")?;
    (!found.is_empty() && name(found) == found).then(|| found.to_owned())
}

/// The identifier that this begins with.
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
        let text = "mod a;\npub use crate::call::Call;\npub use a::{\n    Cause,\n    MAX_NAME,\n};\nuse b::{Hidden};\n";
        let names: Vec<_> = used(text).into_iter().collect();
        assert_eq!(names, ["Call", "Cause", "MAX_NAME"]);
    }

    #[test]
    fn items_belong_to_their_types() {
        assert_eq!(["Event::Lost.held", "Info.clock", "connect"].map(owner), ["Event", "Info", "connect"]);
        assert!(is_of_events("Event::Asked") && !is_of_events("EventKind::Asked"));
    }
}
