// Package checkpoint keeps small files that must survive a crash, a full disk and
// a half-finished write.
//
// [Writer.Replace] puts a file in place as a whole, durably or not at all.
// [Writer.Write] and [Read] add a header with a checksum, so that a damaged file
// is told from a sound one; [Quarantine] moves a damaged one aside, and [Sweep]
// removes what a crash left behind. What is read and what is kept aside is
// bounded.
//
// The package knows nothing of what the files mean.
package checkpoint
