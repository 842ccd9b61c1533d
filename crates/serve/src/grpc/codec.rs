//! Replies that are encoded already.

use std::marker::PhantomData;

use bytes::{Buf, BufMut};
use tonic::Status;
use tonic::codec::{BufferSettings, Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};

use crate::spare;

/// A reply as the bytes that are sent.
pub(crate) struct Encoded(pub(crate) Vec<u8>);

/// Decodes requests, and sends replies as they are.
pub(crate) struct EncodedCodec<T, U> {
    types: PhantomData<(T, U)>,
}

impl<T, U> Default for EncodedCodec<T, U> {
    fn default() -> Self {
        EncodedCodec { types: PhantomData }
    }
}

impl<U: prost::Message + Default + Send + 'static> Codec for EncodedCodec<Encoded, U> {
    type Encode = Encoded;
    type Decode = U;
    type Encoder = AsTheyAre;
    type Decoder = Requests<U>;

    fn encoder(&mut self) -> AsTheyAre {
        AsTheyAre
    }

    fn decoder(&mut self) -> Requests<U> {
        Requests(PhantomData)
    }
}

/// Sends replies as they are.
pub(crate) struct AsTheyAre;

impl Encoder for AsTheyAre {
    type Item = Encoded;
    type Error = Status;

    fn encode(&mut self, item: Encoded, out: &mut EncodeBuf<'_>) -> Result<(), Status> {
        out.reserve(item.0.len());
        out.put_slice(&item.0);
        spare::give_back(item.0);
        Ok(())
    }

    fn buffer_settings(&self) -> BufferSettings {
        BufferSettings::new(BUFFER, BUFFER)
    }
}

/// How many bytes of replies are gathered before they are sent.
const BUFFER: usize = 32 << 10;

/// Decodes requests.
pub(crate) struct Requests<U>(PhantomData<U>);

impl<U: prost::Message + Default> Decoder for Requests<U> {
    type Item = U;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<U>, Status> {
        let length = from.remaining();
        let request = U::decode(from.copy_to_bytes(length));
        request.map(Some).map_err(|error| Status::internal(format!("request cannot be decoded: {error}")))
    }
}
