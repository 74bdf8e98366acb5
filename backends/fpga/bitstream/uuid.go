package bitstream

import (
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/accelmux/accelmux/backends/sysfs"
)

// UUID is an ID of 16 bytes, in the order in which its text has them. The zero
// value is no ID.
type UUID [16]byte

// none is the ID that a card reports if nothing is loaded.
var none = UUID{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}

// ParseUUID reads 32 hexadecimal digits of either case, with dashes in the usual
// four places or without any, followed by any zero bytes and white space, as
// drivers and tools write them.
func ParseUUID(text string) (UUID, error) {
	var id UUID
	digits := strings.TrimRight(text, "\x00 \t\r\n")
	if len(digits) == 36 && digits[8] == '-' && digits[13] == '-' && digits[18] == '-' && digits[23] == '-' {
		digits = digits[:8] + digits[9:13] + digits[14:18] + digits[19:23] + digits[24:]
	}
	if len(digits) != 2*len(id) {
		return UUID{}, fmt.Errorf("%s is no UUID: 32 hexadecimal digits were expected", sysfs.Quote(text))
	}
	if _, err := hex.Decode(id[:], []byte(digits)); err != nil {
		return UUID{}, fmt.Errorf("%s is no UUID: 32 hexadecimal digits were expected", sysfs.Quote(text))
	}
	return id, nil
}

// String returns the UUID in lower case with dashes.
func (id UUID) String() string {
	h := id.Hex()
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}

// Hex returns the UUID as 32 digits in lower case, as the kernel's afu_id and compat_id
// have it.
func (id UUID) Hex() string { return hex.EncodeToString(id[:]) }

// IsZero reports whether there is no ID.
func (id UUID) IsZero() bool { return id == UUID{} }
