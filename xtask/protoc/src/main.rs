//! A stand-in for `protoc` with the options that build scripts use: it reads `.proto` files and writes their
//! descriptors. It is written in Rust, so that a machine with Rust alone can build crates that need `protoc`.
//!
//! ```text
//! protoc [--include_imports] [--include_source_info] -I FOLDER… -o FILE PROTO…
//! ```

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;

use prost::Message;

fn main() -> ExitCode {
    match Order::parse(std::env::args().skip(1)).and_then(|order| order.carry_out()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("onelock-protoc: {e}");
            ExitCode::FAILURE
        }
    }
}

/// What the command line asks for.
#[derive(Debug, Default)]
struct Order {
    output: Option<PathBuf>,
    includes: Vec<PathBuf>,
    protos: Vec<PathBuf>,
    imports: bool,
    comments: bool,
}

impl Order {
    fn parse(mut words: impl Iterator<Item = String>) -> Result<Order, Box<dyn Error>> {
        let mut order = Order::default();
        while let Some(word) = words.next() {
            match word.as_str() {
                "--include_imports" => order.imports = true,
                "--include_source_info" => order.comments = true,
                // Current proto3 compilers always allow optional fields.
                "--experimental_allow_proto3_optional" => {}
                "-o" => order.output = Some(words.next().ok_or("-o names no file")?.into()),
                "-I" => order.includes.push(words.next().ok_or("-I names no folder")?.into()),
                _ => match (word.strip_prefix("--descriptor_set_out="), word.strip_prefix("-I")) {
                    (Some(file), _) => order.output = Some(file.into()),
                    (_, Some(folder)) => order.includes.push(folder.into()),
                    _ if word.starts_with('-') => {
                        return Err(format!("{word} is not known here; set PROTOC to a real protoc").into());
                    }
                    _ => order.protos.push(word.into()),
                },
            }
        }
        Ok(order)
    }

    fn carry_out(self) -> Result<(), Box<dyn Error>> {
        let output = self.output.ok_or("there is no -o FILE")?;
        let mut compiler = protox::Compiler::new(self.includes)?;
        compiler.include_imports(self.imports).include_source_info(self.comments);
        let described = compiler.open_files(self.protos)?.file_descriptor_set();
        Ok(std::fs::write(output, described.encode_to_vec())?)
    }
}
