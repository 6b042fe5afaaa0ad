//! Functions that refer to the text of their own name: C code that reports errors with `__func__`.

use std::collections::BTreeMap;

use crate::{
    bounds::MAX_SAME_NAME,
    elf::Elf,
    error::Result,
    extent::{self, Extent},
    image::Image,
    search,
};

/// The functions that refer to a text which lies at one of these offsets in the file, each once, in the order of the file. `None`: more
/// than there can be.
pub(crate) fn referring(image: &mut Image<'_>, elf: &Elf, texts: &[u64]) -> Result<Option<Vec<Extent>>> {
    let mut targets = Vec::new();
    for text in texts {
        // The whole text: that it is no end of a longer one.
        let is_whole = match text.checked_sub(1) {
            Some(before) => image.array("a text", before)? == [0],
            None => false,
        };
        targets.extend(elf.address(*text).filter(|_| is_whole));
    }
    if targets.is_empty() {
        return Ok(Some(Vec::new()));
    }
    let references = search::references(image, elf, &targets)?;
    let places: Vec<u64> = references.into_iter().map(|reference| reference.offset).collect();
    let extents = extent::around(image, elf, &places)?.into_iter().flatten();
    let found: BTreeMap<u64, Extent> = extents.map(|extent| (extent.offset, extent)).collect();
    Ok((found.len() <= MAX_SAME_NAME).then(|| found.into_values().collect()))
}
