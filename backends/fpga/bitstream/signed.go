package bitstream

import (
	"encoding/binary"
	"fmt"
)

// What Intel's PACSign puts before a bitstream: block 0 of 128 bytes (magic, length
// and type of what is signed, two hashes) and block 1 of 896 bytes (magic, keys,
// signatures), little-endian, as OPAE's pacsign package writes and reads them. In
// a signed .gbs they come after the metadata; in other images they come first.
const (
	signedMagic    = "\x19\xfd\xea\xb6" // 0xb6eafd19
	signatureMagic = 0xf27f28d7
	block0Size     = 128
	signatureSize  = 1024
	// The card PAC D5005 has blocks of another form, with this magic (0x97566593)
	// and, at byte 12, the kind "PR".
	signedMagicDC = "\x93\x65\x56\x97"
)

// Types of signed content, byte 8 of block 0, and of what is done with it, byte 9.
var (
	signedContents = map[byte]string{0: "the static part of the FPGA", 1: "the board's controller (BMC)", 2: "an accelerator function"}
	signedActions  = map[byte]string{0: "an update", 1: "the cancellation of a key", 2: "a root key's hash", 3: "a root key's hash"}
)

const (
	signedAccelerator = 2
	signedUpdate      = 0
)

// readSignature checks whether the payload of a .gbs begins with a signature, and
// whether that is of the payload.
func (f *File) readSignature() error {
	head, err := f.read("bitstream", Span{f.Payload.Offset, min(f.Payload.Size, signatureSize)})
	if err != nil {
		return err
	}
	switch {
	case len(head) >= 14 && string(head[:4]) == signedMagicDC && string(head[12:14]) == "PR":
		f.Green.Signed = true
		return nil
	case len(head) < 4 || string(head[:4]) != signedMagic:
		return nil
	case len(head) < signatureSize:
		return fmt.Errorf("it is cut off: its signature has %d bytes of %d", len(head), signatureSize)
	case binary.LittleEndian.Uint32(head[block0Size:]) != signatureMagic:
		return fmt.Errorf("its signature is damaged: the second block begins with %#08x, and %#08x was expected",
			binary.LittleEndian.Uint32(head[block0Size:]), uint32(signatureMagic))
	case head[8] != signedAccelerator || head[9] != signedUpdate:
		return fmt.Errorf("what is signed in it is %s: an accelerator function was expected", signedAs(head))
	}
	signed, there := int64(binary.LittleEndian.Uint32(head[4:])), f.Payload.Size-signatureSize
	if signed == 0 || signed > there {
		return fmt.Errorf("it is cut off: %d bytes are signed, and %d follow the signature", signed, there)
	}
	f.Green.Signed = true
	return nil
}

// signedImage returns the error for a file that begins with a signature.
func (f *File) signedImage() error {
	head, err := f.read("signature", Span{0, 16})
	if err != nil {
		return err
	}
	return fmt.Errorf("it is an image for Intel's fpgasupdate (signed, %s), which is not programmed into a region: a .gbs was expected, whose header comes before the signature",
		signedAs(head))
}

// signedAs returns what a block 0 signs.
func signedAs(block0 []byte) string {
	content, ok := signedContents[block0[8]]
	if !ok {
		content = fmt.Sprintf("content %d", block0[8])
	}
	action, ok := signedActions[block0[9]]
	if !ok {
		action = fmt.Sprintf("action %d", block0[9])
	}
	return action + " of " + content
}
