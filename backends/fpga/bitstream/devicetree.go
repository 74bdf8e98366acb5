package bitstream

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
)

// A flattened device tree, as the Devicetree Specification (chapter 5) has it,
// big-endian: a header with offsets of two blocks, one of tokens and one of names.
const (
	treeMagic  = 0xd00dfeed
	treeHeader = 40

	tokenBegin    = 1
	tokenEnd      = 2
	tokenProperty = 3
	tokenNothing  = 4
	tokenDone     = 9

	maxInterfaces = 64
)

var errTree = errors.New("it is no flattened device tree, or damaged")

// interfaces returns the properties interface_uuid of the nodes below /interfaces: XRT's tools
// write there those that an .xclbin needs, and its driver compares them with the shell's.
func interfaces(blob []byte) ([]string, error) {
	w, err := newTree(blob)
	if err != nil {
		return nil, err
	}
	var found []string
	for depth, within := 0, false; ; {
		token, err := w.number()
		if err != nil {
			return nil, err
		}
		switch token {
		case tokenBegin:
			name, err := w.name()
			if err != nil {
				return nil, err
			}
			// The root is at depth 1, and its name is empty.
			if depth++; depth == 2 {
				within = name == "interfaces"
			}
		case tokenEnd:
			if depth--; depth < 0 {
				return nil, fmt.Errorf("%w: more nodes end than begin", errTree)
			}
		case tokenProperty:
			isID, value, err := w.property("interface_uuid")
			if err != nil {
				return nil, err
			}
			if depth == 3 && within && isID {
				found = append(found, string(value))
			}
			if len(found) > maxInterfaces {
				return nil, fmt.Errorf("it has more than %d interfaces", maxInterfaces)
			}
		case tokenNothing:
		case tokenDone:
			if depth != 0 {
				return nil, fmt.Errorf("%w: %d nodes have no end", errTree, depth)
			}
			return found, nil
		default:
			return nil, fmt.Errorf("%w: token %#x", errTree, token)
		}
	}
}

// tree walks over the tokens of a device tree.
type tree struct {
	rest, names []byte
}

func newTree(blob []byte) (*tree, error) {
	if len(blob) < treeHeader || binary.BigEndian.Uint32(blob) != treeMagic {
		return nil, fmt.Errorf("%w: %#x and a header of %d bytes were expected", errTree, uint32(treeMagic), treeHeader)
	}
	field := func(i int) uint64 { return uint64(binary.BigEndian.Uint32(blob[4*i:])) }
	total := field(1)
	if total > uint64(len(blob)) {
		return nil, fmt.Errorf("%w: by its header it has %d bytes, and it has %d", errTree, total, len(blob))
	}
	block := func(at, size uint64) ([]byte, error) {
		if at > total || size > total-at {
			return nil, fmt.Errorf("%w: a block has %d bytes from byte %d on, of %d", errTree, size, at, total)
		}
		return blob[at : at+size], nil
	}
	tokens, err := block(field(2), field(9))
	if err != nil {
		return nil, err
	}
	names, err := block(field(3), field(8))
	if err != nil {
		return nil, err
	}
	return &tree{rest: tokens, names: names}, nil
}

// take returns the next size bytes, and skips the padding to a multiple of four. The block of
// tokens begins at such a multiple.
func (t *tree) take(size uint64) ([]byte, error) {
	if size > uint64(len(t.rest)) {
		return nil, fmt.Errorf("%w: it ends early", errTree)
	}
	b := t.rest[:size]
	t.rest = t.rest[min(uint64(len(t.rest)), (size+3)&^3):]
	return b, nil
}

func (t *tree) number() (uint32, error) {
	b, err := t.take(4)
	if err != nil {
		return 0, err
	}
	return binary.BigEndian.Uint32(b), nil
}

func (t *tree) name() (string, error) {
	end := bytes.IndexByte(t.rest, 0)
	if end < 0 {
		return "", fmt.Errorf("%w: a node's name has no end", errTree)
	}
	b, err := t.take(uint64(end) + 1)
	if err != nil {
		return "", err
	}
	return string(b[:end]), nil
}

// property returns a property's value, and whether it has that name. Names may overlap, and
// have no end: only as many bytes are read.
func (t *tree) property(name string) (is bool, value []byte, err error) {
	size, err := t.number()
	if err != nil {
		return false, nil, err
	}
	at, err := t.number()
	if err != nil {
		return false, nil, err
	}
	if value, err = t.take(uint64(size)); err != nil {
		return false, nil, err
	}
	if uint64(at) >= uint64(len(t.names)) {
		return false, nil, fmt.Errorf("%w: a property's name is at byte %d of %d", errTree, at, len(t.names))
	}
	return bytes.HasPrefix(t.names[at:], append([]byte(name), 0)), value, nil
}
