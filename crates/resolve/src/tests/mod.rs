mod properties;
mod sample;
mod table;
