package cdi

import (
	"crypto/sha256"

	specs "tags.cncf.io/container-device-interface/specs-go"

	"github.com/accelmux/accelmux/core/inventory"
)

// content is the edits of a definition. There may be thousands of definitions, and their
// texts would take most of the memory, so only a hash of the text and the source of the
// edits are stored.
type content struct {
	sum sum
	// size is the length of the text.
	size int
	of   source
}

// sum is a hash of the canonical text of edits: equal sum, equal edits.
type sum [16]byte

func sumOf(text string) sum {
	whole := sha256.Sum256([]byte(text))
	return sum(whole[:len(sum{})])
}

// source has edits. Whoever has them may take another's place.
type source interface {
	edits() (*specs.ContainerEdits, error)
}

// text is the canonical text of edits that were read from disk.
type text string

func (t text) edits() (*specs.ContainerEdits, error) { return decode(string(t)) }

// read is what a file has as the canonical text.
func read(canonical string) content {
	return content{sumOf(canonical), len(canonical), text(canonical)}
}

// text is the canonical text.
func (c content) text() (string, error) {
	edits, err := c.of.edits()
	if err != nil {
		return "", err
	}
	return encode(edits)
}

// given is what a Publish made of a device.
type given struct {
	// device may become another one with the same edits. It is the store's; the rest is
	// read by whoever has the Names, and never changes.
	device *inventory.Device
	sum    sum
	size   int
	// qualified is the name, also with an error; "" if it has none.
	qualified string
	err       error
}

func (g *given) edits() (*specs.ContainerEdits, error) { return toCDI(g.device.Edits), nil }
