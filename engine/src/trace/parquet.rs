//! A Parquet file, written row group by row group: as much of the format as a trace needs.

use super::encodings::{put_differences, put_hybrid};
use super::snappy::compress;
use super::symbols::{Symbols, Told};
use super::texts::Texts;
use super::thrift::{Thrift, BINARY, I32, STRUCT};
use std::collections::hash_map::RandomState;
use std::fs::File;
use std::io::{self, Write};

const GROUP_ROWS: usize = 61_440;
const GROUP_BYTES: usize = 24 << 20;
const PLAIN: i32 = 0;
const RLE: i32 = 3;
const DELTA: i32 = 5;
const DICTIONARY: i32 = 8;
const SNAPPY: i32 = 1;

#[derive(Clone, Copy, PartialEq)]
pub enum Kind {
    Bool,
    Int,
    Long,
    Text,
    Texts,
}

impl Kind {
    fn of(name: &str) -> Option<Kind> {
        Some(match name {
            "BOOLEAN" => Kind::Bool,
            "INTEGER" => Kind::Int,
            "BIGINT" => Kind::Long,
            "VARCHAR" => Kind::Text,
            "VARCHAR[]" => Kind::Texts,
            _ => return None,
        })
    }

    fn physical(self) -> i32 {
        match self {
            Kind::Bool => 0,
            Kind::Int => 1,
            Kind::Long => 2,
            Kind::Text | Kind::Texts => 6,
        }
    }
}

/// Values of a column in the row group that is being filled.
struct Column {
    name: String,
    kind: Kind,
    definitions: Vec<u32>,
    repetitions: Vec<u32>,
    numbers: Vec<i64>,
    texts: Texts,
}

/// Where a column of a row group lies.
struct Chunk {
    values: i64,
    dictionary_at: Option<i64>,
    data_at: i64,
    raw: i64,
    packed: i64,
    encoding: i32,
    nulls: i64,
    bounds: Option<(i64, i64)>,
}

pub struct Writer {
    file: File,
    at: i64,
    columns: Vec<Column>,
    groups: Vec<(i64, Vec<Chunk>)>,
    rows: usize,
    bytes: usize,
    hasher: RandomState,
    page: Vec<u8>,
    packed: Vec<u8>,
}

impl Writer {
    /// Begin a file with columns by name and DuckDB's words for their types.
    pub fn new(mut file: File, columns: &[(String, String)]) -> io::Result<Writer> {
        file.write_all(b"PAR1")?;
        let column = |(name, kind): &(String, String)| {
            Some(Column {
                name: name.clone(),
                kind: Kind::of(kind)?,
                definitions: Vec::new(),
                repetitions: Vec::new(),
                numbers: Vec::new(),
                texts: Texts::default(),
            })
        };
        let columns: Option<Vec<Column>> = columns.iter().map(column).collect();
        Ok(Writer {
            file,
            at: 4,
            columns: columns.ok_or(io::ErrorKind::InvalidInput)?,
            groups: Vec::new(),
            rows: 0,
            bytes: 0,
            hasher: RandomState::new(),
            page: Vec::new(),
            packed: Vec::new(),
        })
    }

    pub fn number(&mut self, column: usize, number: Option<i64>) {
        let column = &mut self.columns[column];
        column.definitions.push(u32::from(number.is_some()));
        column.numbers.extend(number);
    }

    pub fn text(&mut self, column: usize, told: Told, symbols: &Symbols) {
        let column = &mut self.columns[column];
        column.definitions.push(u32::from(told != Told::Nothing));
        if told != Told::Nothing {
            self.bytes += column.texts.put_told(told, symbols, &self.hasher);
        }
    }

    /// Begin a list of texts; None is no list, otherwise `element` follows so many times.
    pub fn list(&mut self, column: usize, length: Option<usize>) {
        let column = &mut self.columns[column];
        if !length.is_some_and(|length| length > 0) {
            column.definitions.push(u32::from(length.is_some()));
            column.repetitions.push(0);
        }
    }

    pub fn element(&mut self, column: usize, is_first: bool, told: Told, symbols: &Symbols) {
        let column = &mut self.columns[column];
        column.repetitions.push(u32::from(!is_first));
        column.definitions.push(2 + u32::from(told != Told::Nothing));
        if told != Told::Nothing {
            self.bytes += column.texts.put_told(told, symbols, &self.hasher);
        }
    }

    pub fn end_row(&mut self) -> io::Result<()> {
        self.rows += 1;
        self.bytes += 100;
        if self.rows == GROUP_ROWS || self.bytes > GROUP_BYTES {
            self.end_group()?;
        }
        Ok(())
    }

    fn end_group(&mut self) -> io::Result<()> {
        let mut columns = std::mem::take(&mut self.columns);
        let chunks: io::Result<Vec<Chunk>> = columns.iter_mut().map(|column| self.write_chunk(column)).collect();
        self.columns = columns;
        self.groups.push((self.rows as i64, chunks?));
        self.rows = 0;
        self.bytes = 0;
        Ok(())
    }

    fn write_chunk(&mut self, column: &mut Column) -> io::Result<Chunk> {
        let values = column.definitions.len();
        let most = if column.kind == Kind::Texts { 3 } else { 1 };
        let mut chunk = Chunk {
            values: values as i64,
            dictionary_at: None,
            data_at: 0,
            raw: 0,
            packed: 0,
            encoding: PLAIN,
            nulls: column.definitions.iter().filter(|one| **one < most).count() as i64,
            bounds: None,
        };
        let mut page = std::mem::take(&mut self.page);
        page.clear();
        let is_dictionary = matches!(column.kind, Kind::Text | Kind::Texts) && column.texts.is_dictionary();
        if is_dictionary {
            column.texts.put_all(0..column.texts.ends.len() as u32, &mut page);
            chunk.dictionary_at = Some(self.at);
            self.write_page(&page, column.texts.ends.len(), None, &mut chunk)?;
            page.clear();
        }
        if column.kind == Kind::Texts {
            put_levels(&column.repetitions, 1, &mut page);
            put_levels(&column.definitions, 2, &mut page);
        } else {
            put_levels(&column.definitions, 1, &mut page);
        }
        match column.kind {
            Kind::Bool => {
                for eight in column.numbers.chunks(8) {
                    page.push(eight.iter().enumerate().fold(0, |byte, (at, one)| byte | ((*one as u8) << at)));
                }
            }
            Kind::Int | Kind::Long => {
                chunk.encoding = DELTA;
                put_differences(&column.numbers, &mut page);
                let numbers = &column.numbers;
                chunk.bounds = numbers.iter().min().copied().zip(numbers.iter().max().copied());
            }
            Kind::Text | Kind::Texts if is_dictionary => {
                chunk.encoding = DICTIONARY;
                let width = (32 - (column.texts.ends.len().max(1) as u32 - 1).leading_zeros()).max(1);
                page.push(width as u8);
                put_hybrid(&column.texts.chosen, width, &mut page);
            }
            Kind::Text | Kind::Texts => column.texts.put_all(column.texts.chosen.iter().copied(), &mut page),
        }
        chunk.data_at = self.at;
        self.write_page(&page, values, Some(chunk.encoding), &mut chunk)?;
        self.page = page;
        column.definitions.clear();
        column.repetitions.clear();
        column.numbers.clear();
        column.texts.clear();
        Ok(chunk)
    }

    /// Write a page; one without an encoding of values is a dictionary.
    fn write_page(&mut self, page: &[u8], values: usize, encoding: Option<i32>, chunk: &mut Chunk) -> io::Result<()> {
        self.packed.clear();
        compress(page, &mut self.packed);
        let mut head = Thrift::default();
        head.begin_element();
        head.i32(1, if encoding.is_some() { 0 } else { 2 });
        head.i32(2, page.len() as i32);
        head.i32(3, self.packed.len() as i32);
        head.begin(if encoding.is_some() { 5 } else { 7 });
        head.i32(1, values as i32);
        head.i32(2, encoding.unwrap_or(PLAIN));
        if encoding.is_some() {
            head.i32(3, RLE);
            head.i32(4, RLE);
        }
        head.end();
        head.end();
        self.file.write_all(&head.out)?;
        self.file.write_all(&self.packed)?;
        let size = |body: usize| (head.out.len() + body) as i64;
        chunk.raw += size(page.len());
        chunk.packed += size(self.packed.len());
        self.at += size(self.packed.len());
        Ok(())
    }

    /// Write what is left, and the foot.
    pub fn finish(mut self) -> io::Result<()> {
        if self.rows > 0 {
            self.end_group()?;
        }
        let mut foot = Thrift::default();
        foot.begin_element();
        foot.i32(1, 1);
        self.put_schema(&mut foot);
        foot.i64(3, self.groups.iter().map(|(rows, _)| rows).sum());
        foot.list(4, STRUCT, self.groups.len());
        for (rows, chunks) in &self.groups {
            foot.begin_element();
            foot.list(1, STRUCT, chunks.len());
            for (column, chunk) in self.columns.iter().zip(chunks) {
                put_chunk(column, chunk, &mut foot);
            }
            foot.i64(2, chunks.iter().map(|chunk| chunk.raw).sum());
            foot.i64(3, *rows);
            foot.end();
        }
        foot.binary(6, b"pgdyno");
        foot.end();
        self.file.write_all(&foot.out)?;
        self.file.write_all(&(foot.out.len() as u32).to_le_bytes())?;
        self.file.write_all(b"PAR1")
    }

    fn put_schema(&self, foot: &mut Thrift) {
        let lists = self.columns.iter().filter(|column| column.kind == Kind::Texts).count();
        foot.list(2, STRUCT, 1 + self.columns.len() + 2 * lists);
        foot.begin_element();
        foot.binary(4, b"trace");
        foot.i32(5, self.columns.len() as i32);
        foot.end();
        for column in &self.columns {
            let mut put = |kind: Option<i32>, repetition: i32, name: &[u8], children: i32, converted: Option<i32>| {
                foot.begin_element();
                if let Some(kind) = kind {
                    foot.i32(1, kind);
                }
                foot.i32(3, repetition);
                foot.binary(4, name);
                if children > 0 {
                    foot.i32(5, children);
                }
                if let Some(converted) = converted {
                    foot.i32(6, converted);
                }
                foot.end();
            };
            let (optional, repeated, utf8, list) = (1, 2, 0, 3);
            let physical = Some(column.kind.physical());
            match column.kind {
                Kind::Texts => {
                    put(None, optional, column.name.as_bytes(), 1, Some(list));
                    put(None, repeated, b"list", 1, None);
                    put(physical, optional, b"element", 0, Some(utf8));
                }
                Kind::Text => put(physical, optional, column.name.as_bytes(), 0, Some(utf8)),
                _ => put(physical, optional, column.name.as_bytes(), 0, None),
            }
        }
    }
}

fn put_levels(levels: &[u32], width: u32, page: &mut Vec<u8>) {
    let at = page.len();
    page.extend_from_slice(&[0; 4]);
    put_hybrid(levels, width, page);
    let length = (page.len() - at - 4) as u32;
    page[at..at + 4].copy_from_slice(&length.to_le_bytes());
}

fn put_chunk(column: &Column, chunk: &Chunk, foot: &mut Thrift) {
    foot.begin_element();
    foot.i64(2, chunk.dictionary_at.unwrap_or(chunk.data_at));
    foot.begin(3);
    foot.i32(1, column.kind.physical());
    let encodings = [RLE, chunk.encoding, PLAIN];
    foot.list(2, I32, encodings.len());
    encodings.iter().for_each(|one| foot.element_i32(*one));
    let path: &[&[u8]] = if column.kind == Kind::Texts {
        &[column.name.as_bytes(), b"list", b"element"]
    } else {
        &[column.name.as_bytes()]
    };
    foot.list(3, BINARY, path.len());
    path.iter().for_each(|part| foot.element_binary(part));
    foot.i32(4, SNAPPY);
    foot.i64(5, chunk.values);
    foot.i64(6, chunk.raw);
    foot.i64(7, chunk.packed);
    foot.i64(9, chunk.data_at);
    if let Some(at) = chunk.dictionary_at {
        foot.i64(11, at);
    }
    foot.begin(12);
    foot.i64(3, chunk.nulls);
    if let Some((least, most)) = chunk.bounds {
        let bytes = |number: i64| {
            let all = number.to_le_bytes();
            if column.kind == Kind::Int {
                all[..4].to_vec()
            } else {
                all.to_vec()
            }
        };
        foot.binary(5, &bytes(most));
        foot.binary(6, &bytes(least));
    }
    foot.end();
    foot.end();
    foot.end();
}
