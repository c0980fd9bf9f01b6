//! Byte-pair encoding with tables that are small: spellings lie one behind another in one text, merges are three ids
//! each, and both are found through slots of four bytes. The library's own model keeps every spelling twice as a
//! string by itself, and builds a tree of its JSON before; it takes ten to twenty times the memory. Gives the ids that
//! the library's model gives, also where that has quirks.
//! Not for: dropout, prefixes and suffixes of words, vocabularies with odd ids (model.rs leaves those to the library).

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use ahash::RandomState;
use tokenizers::Token;

const NONE: u32 = u32::MAX;

/// Numbers of things kept elsewhere, found by their hash: linear probing over twice as many slots as things.
struct Slots {
    /// A thing's number and one, and bits of its hash above, so that few others are looked at; 0 is a free slot.
    slots: Vec<u32>,
    number: u32,
    hasher: RandomState,
}

impl Slots {
    /// Numbers are below `end`.
    fn new(count: usize, end: usize) -> Self {
        let number = ((end as u64 + 1).next_power_of_two() - 1) as u32;
        Slots { slots: vec![0; 2 * count + 1], number, hasher: RandomState::new() }
    }

    fn first(&self, hash: u64) -> usize {
        ((u128::from(hash) * self.slots.len() as u128) >> 64) as usize
    }

    /// The slot of the thing that is the `same`, or else the free one where it belongs.
    fn slot(&self, hash: u64, same: impl Fn(u32) -> bool) -> usize {
        let mut at = self.first(hash);
        while self.slots[at] != 0 && !((self.slots[at] ^ hash as u32) & !self.number == 0 && same(self.at(at))) {
            at = if at + 1 == self.slots.len() { 0 } else { at + 1 };
        }
        at
    }

    fn at(&self, slot: usize) -> u32 {
        (self.slots[slot] & self.number) - 1
    }

    fn put(&mut self, slot: usize, hash: u64, number: u32) {
        self.slots[slot] = (number + 1) | (hash as u32 & !self.number);
    }

    fn find(&self, hash: u64, same: impl Fn(u32) -> bool) -> Option<u32> {
        let slot = self.slot(hash, same);
        (self.slots[slot] != 0).then(|| self.at(slot))
    }
}

#[derive(Clone, Copy)]
struct Span {
    start: u32,
    /// NONE: no token has this id.
    len: u32,
}

/// A vocabulary: ids by spelling, and the other way round.
pub struct Spellings {
    text: String,
    by_id: Vec<Span>,
    count: usize,
    slots: Slots,
}

impl Spellings {
    pub fn id_of(&self, token: &str) -> Option<u32> {
        self.slots.find(self.slots.hasher.hash_one(token), |id| self.spelling(id) == Some(token))
    }

    pub fn spelling(&self, id: u32) -> Option<&str> {
        let span = *self.by_id.get(id as usize)?;
        (span.len != NONE).then(|| &self.text[span.start as usize..span.start as usize + span.len as usize])
    }

    pub fn len(&self) -> usize {
        self.count
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, u32)> {
        (0..self.by_id.len() as u32).filter_map(|id| self.spelling(id).map(|token| (token, id)))
    }
}

/// Takes tokens one at a time.
pub struct SpellingsBuilder {
    text: String,
    by_id: Vec<Span>,
    count: usize,
    /// Ids from here on would make the table by id large for nothing.
    most_ids: usize,
}

impl SpellingsBuilder {
    pub fn new(most_ids: usize) -> Self {
        SpellingsBuilder { text: String::new(), by_id: vec![], count: 0, most_ids }
    }

    /// The next token's spelling is what is pushed here, up to the call of `end`.
    pub fn text(&mut self) -> &mut String {
        &mut self.text
    }

    pub fn end(&mut self, start: usize, id: u32) -> Result<(), &'static str> {
        let at = id as usize;
        if at >= self.most_ids {
            return Err("an id is far beyond the number of tokens");
        }
        if at >= self.by_id.len() {
            self.by_id.resize(at + 1, Span { start: 0, len: NONE });
        }
        if self.by_id[at].len != NONE {
            return Err("two tokens have one id");
        }
        let (Ok(from), Ok(len)) = (u32::try_from(start), u32::try_from(self.text.len() - start)) else {
            return Err("the spellings are too long");
        };
        self.by_id[at] = Span { start: from, len };
        self.count += 1;
        Ok(())
    }

    pub fn build(mut self) -> Result<Spellings, &'static str> {
        self.text.shrink_to_fit();
        self.by_id.shrink_to_fit();
        let slots = Slots::new(self.count, self.by_id.len());
        let mut out = Spellings { text: self.text, by_id: self.by_id, count: self.count, slots };
        for id in 0..out.by_id.len() as u32 {
            let Some(token) = out.spelling(id) else { continue };
            let hash = out.slots.hasher.hash_one(token);
            let slot = out.slots.slot(hash, |other| out.spelling(other) == Some(token));
            if out.slots.slots[slot] != 0 {
                return Err("two tokens are spelled alike");
            }
            out.slots.put(slot, hash, id);
        }
        Ok(out)
    }
}

#[derive(Clone, Copy)]
pub struct Merge {
    pub left: u32,
    pub right: u32,
    pub whole: u32,
}

/// The merges, best first: a merge's place in the list is its rank.
struct Merges {
    list: Vec<Merge>,
    slots: Slots,
}

impl Merges {
    fn new(mut list: Vec<Merge>) -> Self {
        list.shrink_to_fit();
        let mut slots = Slots::new(list.len(), list.len());
        for (rank, merge) in list.iter().enumerate() {
            let hash = slots.hasher.hash_one((merge.left, merge.right));
            let same = |other: u32| {
                let other = list[other as usize];
                (other.left, other.right) == (merge.left, merge.right)
            };
            let slot = slots.slot(hash, same);
            slots.put(slot, hash, rank as u32); // the last of equal ones has the rank, as in the library
        }
        Merges { list, slots }
    }

    fn of(&self, left: u32, right: u32) -> Option<(u32, u32)> {
        let rank = self.slots.find(self.slots.hasher.hash_one((left, right)), |rank| {
            let merge = self.list[rank as usize];
            (merge.left, merge.right) == (left, right)
        })?;
        Some((rank, self.list[rank as usize].whole))
    }
}

#[derive(Default)]
pub struct Options {
    /// For characters that are no tokens; without it they are dropped.
    pub unknown: Option<u32>,
    pub fuse_unknown: bool,
    pub byte_fallback: bool,
    pub ignore_merges: bool,
}

pub struct Bpe {
    pub spellings: Spellings,
    merges: Merges,
    options: Options,
    /// <0x00> to <0xFF>
    bytes: [Option<u32>; 256],
}

/// A part of a word, linked to its neighbours. Merging takes the right one out: it then has no length.
struct Symbol {
    id: u32,
    len: u32,
    left: u32,
    right: u32,
}

struct Word(Vec<Symbol>);

impl Word {
    fn push(&mut self, id: u32, len: usize) {
        let at = self.0.len() as u32;
        let left = match self.0.last_mut() {
            Some(last) => {
                last.right = at;
                at - 1
            }
            None => NONE,
        };
        self.0.push(Symbol { id, len: len as u32, left, right: NONE });
    }
}

impl Bpe {
    pub fn new(spellings: Spellings, merges: Vec<Merge>, options: Options) -> Self {
        let bytes = std::array::from_fn(|b| spellings.id_of(&format!("<0x{b:02X}>")));
        Bpe { spellings, merges: Merges::new(merges), options, bytes }
    }

    pub fn tokenize(&self, text: &str) -> Result<Vec<Token>, &'static str> {
        if text.is_empty() {
            return Ok(vec![]);
        }
        if text.len() >= NONE as usize {
            return Err("the text is too long");
        }
        if self.options.ignore_merges {
            if let Some(id) = self.spellings.id_of(text) {
                return Ok(vec![Token::new(id, String::new(), (0, text.len()))]);
            }
        }
        let mut word = self.characters(text);
        self.merge(&mut word.0);
        let mut at = 0;
        let tokens = word.0.iter().filter(|symbol| symbol.len != 0).map(|symbol| {
            let start = at;
            at += symbol.len as usize;
            Token::new(symbol.id, String::new(), (start, at)) // only ids are asked for, so no spelling is copied
        });
        Ok(tokens.collect())
    }

    /// The tokens of single characters, of bytes where there are none.
    fn characters(&self, text: &str) -> Word {
        let mut word = Word(Vec::with_capacity(text.len()));
        let mut unknown: Option<(u32, usize)> = None;
        for (start, c) in text.char_indices() {
            let len = c.len_utf8();
            let character = &text[start..start + len];
            if let Some(id) = self.spellings.id_of(character) {
                if let Some((id, len)) = unknown.take() {
                    word.push(id, len);
                }
                word.push(id, len);
                continue;
            }
            let bytes = || character.bytes().map(|b| self.bytes[b as usize]);
            if self.options.byte_fallback && bytes().all(|id| id.is_some()) {
                // An unknown token that waits is not written before these: the library's order.
                bytes().flatten().for_each(|id| word.push(id, 1));
                continue;
            }
            if let Some(id) = self.options.unknown {
                unknown = match unknown {
                    Some((id, waiting)) if self.options.fuse_unknown => Some((id, waiting + len)),
                    Some((id, waiting)) => {
                        word.push(id, waiting);
                        Some((id, len))
                    }
                    None => Some((id, len)),
                };
            }
        }
        if let Some((id, len)) = unknown {
            word.push(id, len);
        }
        word
    }

    fn merge(&self, word: &mut [Symbol]) {
        let mut queue = BinaryHeap::with_capacity(word.len());
        let push = |queue: &mut BinaryHeap<_>, at: u32, left: u32, right: u32| {
            if let Some((rank, whole)) = self.merges.of(left, right) {
                queue.push(Reverse((rank, at, whole)));
            }
        };
        for (at, pair) in word.windows(2).enumerate() {
            push(&mut queue, at as u32, pair[0].id, pair[1].id);
        }
        while let Some(Reverse((_, at, whole))) = queue.pop() {
            let Symbol { id, len, left, right } = word[at as usize];
            if len == 0 || right == NONE {
                continue;
            }
            let next = &mut word[right as usize];
            // The neighbours may have changed since. As in the library, what the merge makes decides, not its rank.
            if self.merges.of(id, next.id).is_none_or(|(_, now)| now != whole) {
                continue;
            }
            let (after, added) = (next.right, next.len);
            next.len = 0;
            let symbol = &mut word[at as usize];
            symbol.id = whole;
            symbol.len += added;
            symbol.right = after;
            if after != NONE {
                word[after as usize].left = at;
                push(&mut queue, at, whole, word[after as usize].id);
            }
            if left != NONE {
                push(&mut queue, left, word[left as usize].id, whole);
            }
        }
    }
}
