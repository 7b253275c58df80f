//! The part of MongoDB's protocol that is needed to greet a server and to make a replica set of it: one command and one
//! answer (OP_MSG). A driver would need a runtime and a minute of compiling.

use std::io::{self, Read, Write};

use bson::Document;

const OP_MSG: i32 = 2013;
/// The header, no flags, and the kind of the only section, which is a document.
const BEFORE_BODY: usize = 16 + 4 + 1;

/// Sends a command to the database `admin`, and returns the server's answer. A refusal is an error.
pub(crate) fn ask(stream: &mut (impl Read + Write), mut command: Document) -> io::Result<Document> {
    command.insert("$db", "admin");
    let body = bson::to_vec(&command).map_err(io::Error::other)?;
    let length = i32::try_from(BEFORE_BODY + body.len()).map_err(io::Error::other)?;
    let mut message: Vec<u8> = [length, 1, 0, OP_MSG, 0].into_iter().flat_map(i32::to_le_bytes).collect();
    message.push(0);
    message.extend_from_slice(&body);
    stream.write_all(&message)?;
    stream.read_exact(&mut [0; BEFORE_BODY])?;
    // The document says how long it is.
    let answer = Document::from_reader(stream).map_err(io::Error::other)?;
    if is(&answer, "ok") {
        return Ok(answer);
    }
    let refusal = answer.get_str("errmsg").unwrap_or("the server refused");
    Err(io::Error::other(format!("{refusal} ({})", answer.get_i32("code").unwrap_or_default())))
}

/// Returns whether this field says yes.
pub(crate) fn is(answer: &Document, name: &str) -> bool {
    answer.get_bool(name).unwrap_or_else(|_| answer.get_f64(name).is_ok_and(|n| n != 0.0))
}
