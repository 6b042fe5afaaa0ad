//! That probes run on this kernel: a function of this program is probed, and called.

use std::{
    fs, hint,
    os::fd::AsFd as _,
    path::{Path, PathBuf},
};

use aya::maps::{MapData, PerCpuArray};
use mcpwarden_abi::{Counter, TLS_READ, TlsCookie};

use super::TlsPrograms;
use crate::uprobe::Place;

/// The function. It has to be there, and to do something.
#[inline(never)]
extern "C" fn probed(number: u64) -> u64 {
    hint::black_box(number) + 1
}

impl TlsPrograms {
    /// Probes and calls a function of this program. The name of the way in which probes are attached.
    ///
    /// # Errors
    /// The kernel refuses it, or the probes do not run.
    pub(super) fn self_test(&self, counters: &PerCpuArray<&MapData, u64>) -> Result<&'static str, String> {
        let loaded = self.loaded().map_err(|error| error.to_string())?;
        let (file, offset) =
            place((probed as *const ()).addr() as u64).ok_or("its own memory map cannot be read")?;
        let place = Place { offset, cookie: TlsCookie { role: TLS_READ, ..TlsCookie::default() }.pack() };
        // Each of them counts a return without a call.
        let untold =
            || counters.get(&(Counter::TlsUntold as u32), 0).map_or(0, |all| all.iter().sum::<u64>());
        let attach = |program, at_return| {
            let attached =
                loaded.way.attach(program, (std::process::id(), file.as_path()), &[place], at_return);
            attached.map_err(|error| format!("{}: {error}", loaded.way.name()))
        };
        let before = untold();
        let links = (attach(loaded.returns.as_fd(), false)?, attach(loaded.returned.as_fd(), true)?);
        hint::black_box(probed(hint::black_box(1)));
        let ran = untold() - before;
        drop(links);
        match ran {
            2 => Ok(loaded.way.name()),
            _ => Err(format!("{}: attached, and {ran} of 2 probes ran", loaded.way.name())),
        }
    }
}

/// The file that is mapped at an address of this process, and the offset in it.
fn place(address: u64) -> Option<(PathBuf, u64)> {
    let maps = fs::read_to_string("/proc/self/maps").ok()?;
    maps.lines().find_map(|line| {
        let mut fields = line.splitn(6, ' ');
        let (from, to) = fields.next()?.split_once('-')?;
        let number = |text: &str| u64::from_str_radix(text, 16).ok();
        let (from, to) = (number(from)?, number(to)?);
        let offset = number(fields.nth(1)?)?;
        // The program, wherever it is now.
        (from..to)
            .contains(&address)
            .then(|| (Path::new("/proc/self/exe").to_owned(), offset + (address - from)))
    })
}
