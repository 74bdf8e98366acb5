package smi

import "bytes"

// maxLine bounds a line; the driver's have 96 bytes at most.
const maxLine = 256

// lines cuts what is read into lines. A line may come in pieces, and several at
// once. One that is longer than maxLine is dropped up to its end.
type lines struct {
	begun   []byte
	tooLong bool
}

// add calls found with each line that is complete now, without its end.
func (l *lines) add(piece []byte, found func(string)) {
	for {
		head, tail, whole := bytes.Cut(piece, []byte("\n"))
		if !l.tooLong {
			l.begun = append(l.begun, head[:min(len(head), maxLine+1)]...)
			l.tooLong = len(l.begun) > maxLine
		}
		if !whole {
			return
		}
		if !l.tooLong && len(l.begun) > 0 {
			found(string(l.begun))
		}
		l.begun, l.tooLong = l.begun[:0], false
		piece = tail
	}
}
