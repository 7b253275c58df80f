//! The part of MongoDB's protocol that is needed to greet a server and to make a replica set of it: one command and one
//! answer (OP_MSG), in documents of a few types. A driver would need a runtime and a minute of compiling.

use std::io::{self, Read, Write};

/// A value of a document, of the types that are needed here. Other values in an answer are skipped.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Double(f64),
    Text(String),
    Document(Document),
    Array(Document),
    Bool(bool),
    /// Milliseconds since 1970.
    Date(i64),
    Int(i64),
    Other,
}

/// Names and values, in their order.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Document(Vec<(String, Value)>);

impl Document {
    /// Returns the document with one more field.
    pub(crate) fn with(mut self, name: &str, value: impl Into<Value>) -> Document {
        self.0.push((name.to_owned(), value.into()));
        self
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Value> {
        self.0.iter().find(|(n, _)| n == name).map(|(_, value)| value)
    }

    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        match self.get(name)? {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    pub(crate) fn is(&self, name: &str) -> bool {
        match self.get(name) {
            Some(Value::Bool(is)) => *is,
            Some(Value::Double(n)) => *n != 0.0,
            Some(Value::Int(n)) => *n != 0,
            _ => false,
        }
    }

    pub(crate) fn int(&self, name: &str) -> Option<i64> {
        match self.get(name)? {
            Value::Int(n) | Value::Date(n) => Some(*n),
            Value::Double(n) => Some(*n as i64),
            _ => None,
        }
    }

    /// Makes an array of documents.
    pub(crate) fn list(items: impl IntoIterator<Item = Document>) -> Value {
        let items = items.into_iter().enumerate();
        Value::Array(Document(items.map(|(n, item)| (n.to_string(), Value::Document(item))).collect()))
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Value {
        Value::Text(text)
    }
}

impl From<i32> for Value {
    fn from(n: i32) -> Value {
        Value::Int(n.into())
    }
}

impl From<bool> for Value {
    fn from(is: bool) -> Value {
        Value::Bool(is)
    }
}

impl From<Document> for Value {
    fn from(document: Document) -> Value {
        Value::Document(document)
    }
}

const OP_MSG: i32 = 2013;
const HEADER: usize = 16;

/// Sends a command to the database `admin`, and returns the server's answer. A refusal is an error.
pub(crate) fn ask(stream: &mut (impl Read + Write), command: Document) -> io::Result<Document> {
    let body = encode(&command.with("$db", "admin"));
    let length = HEADER + 5 + body.len();
    let mut message = Vec::with_capacity(length);
    for field in [int32(length)?, 1, 0, OP_MSG, 0] {
        message.extend_from_slice(&field.to_le_bytes());
    }
    message.push(0); // one section, the body
    message.extend_from_slice(&body);
    stream.write_all(&message)?;
    let mut header = [0; HEADER + 5];
    stream.read_exact(&mut header)?;
    let length = Reader(&header).int32()?;
    let mut body = vec![0; usize::try_from(length).map_err(io::Error::other)?.saturating_sub(header.len())];
    stream.read_exact(&mut body)?;
    let answer = Reader(&body).document()?;
    if answer.is("ok") {
        return Ok(answer);
    }
    Err(io::Error::other(format!(
        "{} ({})",
        answer.text("errmsg").unwrap_or("the server refused"),
        answer.int("code").unwrap_or_default()
    )))
}

fn int32(n: usize) -> io::Result<i32> {
    i32::try_from(n).map_err(io::Error::other)
}

fn encode(document: &Document) -> Vec<u8> {
    let mut bytes = vec![0; 4];
    for (name, value) in &document.0 {
        let (kind, content) = encode_value(value);
        bytes.push(kind);
        bytes.extend_from_slice(name.as_bytes());
        bytes.push(0);
        bytes.extend_from_slice(&content);
    }
    bytes.push(0);
    let length = (bytes.len() as u32).to_le_bytes();
    bytes[..4].copy_from_slice(&length);
    bytes
}

fn encode_value(value: &Value) -> (u8, Vec<u8>) {
    match value {
        Value::Double(n) => (0x01, n.to_le_bytes().to_vec()),
        Value::Text(text) => {
            let mut bytes = (text.len() as u32 + 1).to_le_bytes().to_vec();
            bytes.extend_from_slice(text.as_bytes());
            bytes.push(0);
            (0x02, bytes)
        }
        Value::Document(document) => (0x03, encode(document)),
        Value::Array(items) => (0x04, encode(items)),
        Value::Bool(is) => (0x08, vec![u8::from(*is)]),
        Value::Date(millis) => (0x09, millis.to_le_bytes().to_vec()),
        // Commands refuse 64-bit numbers where 32 bits would do.
        Value::Int(n) => match i32::try_from(*n) {
            Ok(n) => (0x10, n.to_le_bytes().to_vec()),
            Err(_) => (0x12, n.to_le_bytes().to_vec()),
        },
        Value::Other => (0x0a, Vec::new()),
    }
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> io::Result<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(io::ErrorKind::UnexpectedEof)?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        self.take(N)?.try_into().map_err(io::Error::other)
    }

    fn int32(&mut self) -> io::Result<i32> {
        self.array().map(i32::from_le_bytes)
    }

    fn length(&mut self) -> io::Result<usize> {
        usize::try_from(self.int32()?).map_err(io::Error::other)
    }

    fn name(&mut self) -> io::Result<String> {
        let end = self.0.iter().position(|byte| *byte == 0).ok_or(io::ErrorKind::UnexpectedEof)?;
        let name = String::from_utf8_lossy(self.take(end)?).into_owned();
        self.take(1)?;
        Ok(name)
    }

    fn document(&mut self) -> io::Result<Document> {
        let length = self.length()?;
        let mut rest = Reader(self.take(length.saturating_sub(4))?);
        let mut fields = Vec::new();
        loop {
            match rest.array::<1>()? {
                [0] => return Ok(Document(fields)),
                [kind] => {
                    let name = rest.name()?;
                    fields.push((name, rest.value(kind)?));
                }
            }
        }
    }

    fn value(&mut self, kind: u8) -> io::Result<Value> {
        Ok(match kind {
            0x01 => Value::Double(f64::from_le_bytes(self.array()?)),
            0x02 => {
                let length = self.length()?;
                let text = self.take(length)?;
                Value::Text(String::from_utf8_lossy(&text[..length.saturating_sub(1)]).into_owned())
            }
            0x03 => Value::Document(self.document()?),
            0x04 => Value::Array(self.document()?),
            0x05 => {
                let length = self.length()?;
                self.take(length + 1)?;
                Value::Other
            }
            0x07 => self.take(12).map(|_| Value::Other)?,
            0x08 => Value::Bool(self.array::<1>()? != [0]),
            0x09 => Value::Date(i64::from_le_bytes(self.array()?)),
            0x0a | 0x06 => Value::Other,
            0x10 => Value::Int(self.int32()?.into()),
            0x11 => self.take(8).map(|_| Value::Other)?,
            0x12 => Value::Int(i64::from_le_bytes(self.array()?)),
            kind => return Err(io::Error::other(format!("a value of the unknown type {kind:#x}"))),
        })
    }
}
