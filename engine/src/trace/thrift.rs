//! Thrift's compact protocol, written: what heads and the foot of a Parquet file are in.

use super::bytes::{put_small, put_varint};

pub const I32: u8 = 5;
pub const I64: u8 = 6;
pub const BINARY: u8 = 8;
const LIST: u8 = 9;
pub const STRUCT: u8 = 12;

#[derive(Default)]
pub struct Thrift {
    pub out: Vec<u8>,
    last: i16,
    outer: Vec<i16>,
}

impl Thrift {
    fn field(&mut self, id: i16, kind: u8) {
        debug_assert!(id > self.last && id - self.last < 16);
        self.out.push((((id - self.last) as u8) << 4) | kind);
        self.last = id;
    }

    pub fn i32(&mut self, id: i16, number: i32) {
        self.field(id, I32);
        put_small(&mut self.out, i64::from(number));
    }

    pub fn i64(&mut self, id: i16, number: i64) {
        self.field(id, I64);
        put_small(&mut self.out, number);
    }

    pub fn binary(&mut self, id: i16, text: &[u8]) {
        self.field(id, BINARY);
        self.element_binary(text);
    }

    pub fn list(&mut self, id: i16, kind: u8, length: usize) {
        self.field(id, LIST);
        if length < 15 {
            self.out.push((length as u8) << 4 | kind);
        } else {
            self.out.push(0xF0 | kind);
            put_varint(&mut self.out, length as u64);
        }
    }

    pub fn element_i32(&mut self, number: i32) {
        put_small(&mut self.out, i64::from(number));
    }

    pub fn element_binary(&mut self, text: &[u8]) {
        put_varint(&mut self.out, text.len() as u64);
        self.out.extend_from_slice(text);
    }

    pub fn begin(&mut self, id: i16) {
        self.field(id, STRUCT);
        self.begin_element();
    }

    pub fn begin_element(&mut self) {
        self.outer.push(self.last);
        self.last = 0;
    }

    pub fn end(&mut self) {
        self.out.push(0);
        self.last = self.outer.pop().unwrap_or(0);
    }
}
