//! The "model" of a tokenizer.json: byte-pair encoding in tables of our own where they can say it (bpe.rs), else the
//! library's. Read without a tree of its JSON.

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokenizers::models::bpe::BpeTrainer;
use tokenizers::models::{ModelWrapper, TrainerWrapper};
use tokenizers::{Result, Token};

use crate::bpe::{Bpe, Merge, Options, Spellings, SpellingsBuilder};

pub enum Model {
    Bpe(Box<Bpe>),
    Library(ModelWrapper),
}

impl Model {
    pub fn each_token(&self, mut visit: impl FnMut(&str, u32)) {
        match self {
            Model::Bpe(bpe) => bpe.spellings.iter().for_each(|(token, id)| visit(token, id)),
            Model::Library(library) => {
                tokenizers::Model::get_vocab(library).iter().for_each(|(token, id)| visit(token, *id))
            }
        }
    }
}

impl tokenizers::Model for Model {
    type Trainer = TrainerWrapper;

    fn tokenize(&self, text: &str) -> Result<Vec<Token>> {
        match self {
            Model::Bpe(bpe) => Ok(bpe.tokenize(text)?),
            Model::Library(library) => library.tokenize(text),
        }
    }

    fn token_to_id(&self, token: &str) -> Option<u32> {
        match self {
            Model::Bpe(bpe) => bpe.spellings.id_of(token),
            Model::Library(library) => library.token_to_id(token),
        }
    }

    fn id_to_token(&self, id: u32) -> Option<String> {
        match self {
            Model::Bpe(bpe) => bpe.spellings.spelling(id).map(String::from),
            Model::Library(library) => library.id_to_token(id),
        }
    }

    fn get_vocab(&self) -> HashMap<String, u32> {
        let mut out = HashMap::new();
        self.each_token(|token, id| {
            out.insert(token.to_string(), id);
        });
        out
    }

    fn get_vocab_size(&self) -> usize {
        match self {
            Model::Bpe(bpe) => bpe.spellings.len(),
            Model::Library(library) => library.get_vocab_size(),
        }
    }

    fn save(&self, _: &Path, _: Option<&str>) -> Result<Vec<PathBuf>> {
        Err("a tokenizer that was read is not written".into())
    }

    fn get_trainer(&self) -> TrainerWrapper {
        BpeTrainer::default().into()
    }
}

impl<'de> Deserialize<'de> for Model {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        let json = <&RawValue>::deserialize(deserializer)?.get();
        // Whatever is wrong with it, the library's words for it are the known ones.
        match read_bpe(json) {
            Ok(bpe) => Ok(Model::Bpe(Box::new(bpe))),
            Err(_) => serde_json::from_str(json).map(Model::Library).map_err(D::Error::custom),
        }
    }
}

#[derive(Deserialize)]
struct Fields<'a> {
    #[serde(rename = "type")]
    kind: String,
    dropout: Option<f32>,
    unk_token: Option<String>,
    continuing_subword_prefix: Option<String>,
    end_of_word_suffix: Option<String>,
    fuse_unk: Option<bool>,
    byte_fallback: Option<bool>,
    ignore_merges: Option<bool>,
    #[serde(borrow)]
    vocab: &'a RawValue,
    #[serde(borrow)]
    merges: &'a RawValue,
}

fn read_bpe(json: &str) -> serde_json::Result<Bpe> {
    let fields: Fields = serde_json::from_str(json)?;
    let absent = |text: &Option<String>| text.as_ref().is_none_or(String::is_empty);
    let plain = absent(&fields.continuing_subword_prefix) && absent(&fields.end_of_word_suffix);
    if fields.kind != "BPE" || fields.dropout.is_some() || !plain {
        return Err(serde_json::Error::custom("not for bpe.rs"));
    }
    let vocab = fields.vocab.get();
    let mut builder = SpellingsBuilder::new(vocab.len());
    serde_json::Deserializer::from_str(vocab).deserialize_map(VocabInto(&mut builder))?;
    let spellings = builder.build().map_err(serde_json::Error::custom)?;
    let merges = serde_json::Deserializer::from_str(fields.merges.get()).deserialize_seq(MergesOf(&spellings))?;
    let unknown = match &fields.unk_token {
        Some(token) => Some(spellings.id_of(token).ok_or_else(|| serde_json::Error::custom("unk_token"))?),
        None => None,
    };
    let options = Options {
        unknown,
        fuse_unknown: fields.fuse_unk.unwrap_or(false),
        byte_fallback: fields.byte_fallback.unwrap_or(false),
        ignore_merges: fields.ignore_merges.unwrap_or(false),
    };
    Ok(Bpe::new(spellings, merges, options))
}

/// Appends a string, without one of its own in between.
struct Append<'a>(&'a mut String);

impl<'de> DeserializeSeed<'de> for Append<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> std::result::Result<(), D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Append<'_> {
    type Value = ();

    fn expecting(&self, out: &mut fmt::Formatter) -> fmt::Result {
        out.write_str("a token")
    }

    fn visit_str<E: Error>(self, text: &str) -> std::result::Result<(), E> {
        self.0.push_str(text);
        Ok(())
    }
}

struct VocabInto<'a>(&'a mut SpellingsBuilder);

impl<'de> Visitor<'de> for VocabInto<'_> {
    type Value = ();

    fn expecting(&self, out: &mut fmt::Formatter) -> fmt::Result {
        out.write_str("tokens and their ids")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<(), A::Error> {
        loop {
            let start = self.0.text().len();
            if map.next_key_seed(Append(self.0.text()))?.is_none() {
                return Ok(());
            }
            self.0.end(start, map.next_value()?).map_err(A::Error::custom)?;
        }
    }
}

struct MergesOf<'a>(&'a Spellings);

impl<'de> Visitor<'de> for MergesOf<'_> {
    type Value = Vec<Merge>;

    fn expecting(&self, out: &mut fmt::Formatter) -> fmt::Result {
        out.write_str("a list of merges")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> std::result::Result<Vec<Merge>, A::Error> {
        let mut merges = vec![];
        let mut whole = String::new();
        let mut form = None;
        while let Some((pair, merge)) = list.next_element_seed(MergeOf { spellings: self.0, whole: &mut whole })? {
            if *form.get_or_insert(pair) != pair {
                return Err(A::Error::custom("merges in both forms"));
            }
            merges.extend(merge);
        }
        Ok(merges)
    }
}

/// One merge, ["a", "b"] or "a b", and whether it is a pair. A line "#version" among the latter is none.
struct MergeOf<'a> {
    spellings: &'a Spellings,
    whole: &'a mut String,
}

impl MergeOf<'_> {
    fn ids<E: Error>(&self, cut: usize) -> std::result::Result<Merge, E> {
        let find = |token| self.spellings.id_of(token).ok_or_else(|| E::custom("a merge of no tokens"));
        let (left, right) = self.whole.split_at(cut);
        Ok(Merge { left: find(left)?, right: find(right)?, whole: find(self.whole)? })
    }
}

impl<'de> DeserializeSeed<'de> for MergeOf<'_> {
    type Value = (bool, Option<Merge>);

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> std::result::Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for MergeOf<'_> {
    type Value = (bool, Option<Merge>);

    fn expecting(&self, out: &mut fmt::Formatter) -> fmt::Result {
        out.write_str("two tokens")
    }

    fn visit_str<E: Error>(self, line: &str) -> std::result::Result<Self::Value, E> {
        if line.starts_with("#version") {
            return Ok((false, None));
        }
        let Some((left, right)) = line.split_once(' ').filter(|(_, right)| !right.contains(' ')) else {
            return Err(E::custom("not two tokens"));
        };
        self.whole.clear();
        self.whole.push_str(left);
        self.whole.push_str(right);
        Ok((false, Some(self.ids(left.len())?)))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut pair: A) -> std::result::Result<Self::Value, A::Error> {
        self.whole.clear();
        let left = pair.next_element_seed(Append(self.whole))?;
        let cut = self.whole.len();
        let right = pair.next_element_seed(Append(self.whole))?;
        if left.is_none() || right.is_none() || pair.next_element::<serde::de::IgnoredAny>()?.is_some() {
            return Err(A::Error::custom("not two tokens"));
        }
        Ok((true, Some(self.ids(cut)?)))
    }
}
