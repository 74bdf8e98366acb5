// Package bitstream reads what a file that programs an FPGA is for, before
// anything is programmed: a .gbs of Intel's cards, an .xclbin of AMD's, or a raw
// file, of which only the size is known.
//
//	Find(dir, name) ─► Open ─► what the content begins with ─► gbs │ xclbin │ raw
//
// A file is opened once. Its header, its section table and its metadata are read,
// each with a bound, and checked against the file's size; the payload stays on disk
// and is mapped or streamed by who programs it, so that it is not held twice.
//
// The package knows no card: whether a file fits one, the caller decides by the
// IDs. It checks no signature (the card does), writes no file, and is no judge of
// a payload's content.
package bitstream
