// Package bitstream reads the headers of files that program an FPGA: a .gbs of Intel's cards, an
// .xclbin of AMD's, or a raw file, of which only the size is known.
//
//	Find(dir, name) ─► Open ─► what the content begins with ─► gbs │ xclbin │ raw
//
// A file is opened once. Its header, its section table and its metadata are read,
// each with a bound, and checked against the file's size; the payload stays on disk
// and is mapped or streamed for programming, so that it is not in memory twice.
//
// The package is specific to no card: the caller decides by the IDs whether a file fits one. It
// checks no signature (the card does), writes no file, and does not check a payload's content.
package bitstream
