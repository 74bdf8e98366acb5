// Package checkpoint writes small files that must survive a crash, a full disk and
// an interrupted write.
//
// [Writer.Replace] replaces a file as a whole, durably or not at all.
// [Writer.Write] and [Read] add a header with a checksum, so that a damaged file
// is detected; [Quarantine] moves a damaged one aside, and [Sweep] removes
// temporary files that a crash left behind. The size of a file and the number of
// damaged ones are bounded.
//
// The package does not know what the files mean.
package checkpoint
