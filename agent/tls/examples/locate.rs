//! Prints what is found in files: `cargo run -p mcpwarden-tls --example locate -- FILE…`

#![allow(clippy::print_stdout, reason = "this is its purpose")]

use std::{fs::File, time::Instant};

use mcpwarden_tls::{Image, Signatures, locate};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let signatures = Signatures::built_in()?;
    for path in std::env::args().skip(1) {
        let file = File::open(&path)?;
        let start = Instant::now();
        let mut image = Image::of_file(&file)?;
        let located = locate(&mut image, &signatures);
        println!("{path}: {:?}, {} bytes of {} read", start.elapsed(), image.read_bytes(), image.length());
        match located {
            Err(error) => println!("  {error}"),
            Ok(located) => {
                println!("  build id {:?}, needs {}", located.build_id, located.needed.join(" "));
                for stack in &located.stacks {
                    println!("  {} {}", stack.library, stack.version.as_deref().unwrap_or("?"));
                    for function in &stack.functions {
                        println!(
                            "    {:?} {} by {} at {:#x}, probe {:#x} {:?} stack {}{}{}",
                            function.role,
                            function.name,
                            function.way,
                            function.offset,
                            function.probe.offset,
                            function.probe.step,
                            function.probe.stack,
                            function
                                .returns
                                .as_ref()
                                .map_or(String::new(), |all| format!(", {} returns {all:x?}", all.len())),
                            if function.also.is_empty() {
                                String::new()
                            } else {
                                format!(", also {:?}", function.also)
                            },
                        );
                    }
                }
                for unknown in &located.unknown {
                    println!("  unknown: {} {:?}: {}", unknown.library, unknown.version, unknown.why);
                }
                for problem in &located.problems {
                    println!("  problem: {problem}");
                }
            }
        }
    }
    Ok(())
}
