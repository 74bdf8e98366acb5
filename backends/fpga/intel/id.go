package intel

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/accelmux/accelmux/backends/fpga/driver"
	"github.com/accelmux/accelmux/backends/pci"
	"github.com/accelmux/accelmux/backends/sysfs"
)

// CardID returns the ID of a card: fpga-<address>, such as fpga-0000-05-00-0. Cards report no
// serial number, so it stays the same as long as the card stays in its slot and the
// buses are numbered alike: over restarts, reboots, reloads of the driver, other
// numbers of regions and another order of discovery.
func CardID(at pci.Address) string { return "fpga-" + dashed(at) }

// PortID returns the ID of a port of a card: <card>-port-<number>, such as
// fpga-0000-05-00-0-port-0.
func PortID(at pci.Address, number int) string { return fmt.Sprintf("%s-port-%d", CardID(at), number) }

// dashed returns an address for where colons may not be.
func dashed(at pci.Address) string {
	return strings.NewReplacer(":", "-", ".", "-").Replace(at.String())
}

// digits is the length of an interface or AFU ID.
const digits = 32

// ParseID reads an interface or AFU ID as drivers write it: 32 hexadecimal digits of
// either case, with NUL and white space after them, or dashes between them as GUIDs
// have. The result has 32 digits in lower case; it is empty for a file with nothing in
// it.
func ParseID(text string) (string, error) {
	cleaned := driver.Clean(text)
	if cleaned == "" {
		return "", nil
	}
	id := strings.ToLower(strings.ReplaceAll(cleaned, "-", ""))
	if len(id) != digits || strings.Trim(id, "0123456789abcdef") != "" || len(cleaned) != digits && !isGUID(cleaned) {
		return "", fmt.Errorf("%s is no ID of %d hexadecimal digits", sysfs.Quote(cleaned), digits)
	}
	return id, nil
}

// isGUID reports whether dashes are where GUIDs have them.
func isGUID(text string) bool {
	for i, r := range text {
		if (r == '-') != (i == 8 || i == 13 || i == 18 || i == 23) {
			return false
		}
	}
	return true
}

// allOnes reports whether all bits of an ID are 1, as a card reports that does not answer, and a
// port without an accelerator function.
func allOnes(id string) bool { return id != "" && strings.Trim(id, "f") == "" }

// parseRegister reads a number of up to 128 bits.
func parseRegister(text string) (high, low uint64, err error) {
	cleaned := driver.Clean(text)
	if n := len(cleaned); n > 18 && n <= 34 && strings.HasPrefix(cleaned, "0x") {
		high, err = strconv.ParseUint(cleaned[2:n-16], 16, 64)
		if err == nil {
			low, err = strconv.ParseUint(cleaned[n-16:], 16, 64)
		}
		if err != nil {
			return 0, 0, fmt.Errorf("%s is no number of 128 bits", sysfs.Quote(cleaned))
		}
		return high, low, nil
	}
	low, err = driver.ParseNumber(text)
	return 0, low, err
}

// parseDev reads major and minor number of a device node, such as 244:0.
func parseDev(text string) (major, minor uint32, err error) {
	cleaned := driver.Clean(text)
	a, b, ok := strings.Cut(cleaned, ":")
	x, errA := strconv.ParseUint(a, 10, 12) // Linux has 12 bits for the one,
	y, errB := strconv.ParseUint(b, 10, 20) // and 20 for the other
	if !ok || errA != nil || errB != nil {
		return 0, 0, fmt.Errorf("%s is no device number; want such as 244:0", sysfs.Quote(cleaned))
	}
	return uint32(x), uint32(y), nil
}
