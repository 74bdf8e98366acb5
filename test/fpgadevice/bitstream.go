package fpgadevice

import (
	"encoding/binary"
	"encoding/json"
)

// magic is what a .gbs file begins with: two numbers of 64 bits, of which the first
// reads "XeonFPGA" and the last four bytes of the second are a version.
const magic = "XeonFPGA\xb7GBSv001"

// Bitstream is what the card knows of one.
type Bitstream struct {
	// Interface is the ID of what it fits, and AFU that of what the port has then: 32
	// hexadecimal digits in either case, with dashes or without.
	Interface, AFU string
	// Payload is what the kernel is given.
	Payload []byte
}

// metadata is the part of a .gbs file's that matters here.
type metadata struct {
	Version  int    `json:"version"`
	Platform string `json:"platform-name"`
	Image    struct {
		Interface string    `json:"interface-uuid"`
		Clusters  []cluster `json:"accelerator-clusters"`
	} `json:"afu-image"`
}

type cluster struct {
	Name     string `json:"name"`
	Contexts int    `json:"total-contexts"`
	Type     string `json:"accelerator-type-uuid"`
}

// GBS is a .gbs file with the bitstream.
func (b Bitstream) GBS() []byte {
	m := metadata{Version: 1}
	m.Image.Interface = b.Interface
	m.Image.Clusters = []cluster{{Name: "test", Contexts: 1, Type: b.AFU}}
	text, err := json.Marshal(m)
	if err != nil {
		return nil
	}
	file := binary.LittleEndian.AppendUint32([]byte(magic), uint32(len(text)))
	return append(append(file, text...), b.Payload...)
}
