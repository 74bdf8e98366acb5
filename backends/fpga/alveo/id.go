package alveo

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/accelmux/accelmux/backends/pci"
)

// Domain is that of the names of resources.
const Domain = "amd.com"

// SerialID returns the ID of a card that reports its serial number, such as fpga-21770205K01Y:
// the same in any slot.
func SerialID(serial string) string { return "fpga-" + serial }

// PlaceID returns the ID of a card that has no serial number, or shares it with another one,
// as the two FPGAs of a U30 do: that of its place, such as fpga-0000-65-00-1. It stays
// the same while the card stays in its slot and buses are numbered alike.
func PlaceID(at pci.Address) string {
	return "fpga-" + strings.NewReplacer(":", "-", ".", "-").Replace(at.String())
}

// RegionID returns the ID of what a container is given of a card.
func RegionID(card string) string { return card + "-user" }

const (
	// longest is the length of the longest name of a Kubernetes resource, without the
	// domain.
	longest = 63
	// hashed is how many digits stand for a name that could not be a resource's.
	hashed = 8
)

// PlatformName returns the name of the resource of cards with a shell, without the domain,
// such as xilinx_u250_gen3x16_xdma_shell_4_1-0: what users of AMD's device plugin know.
// A name that Kubernetes would refuse, for its characters or its length, gets a hash of
// it before the time, and is cut. It is empty for a card that has not reported its shell.
func PlatformName(s Shell) string {
	if s.VBNV == "" {
		return ""
	}
	allowed := strings.Map(func(r rune) rune {
		if isLetter(r) || strings.ContainsRune("-_.", r) {
			return r
		}
		return '_'
	}, s.VBNV)
	allowed = strings.TrimLeft(allowed, "-_.")
	end := fmt.Sprintf("-%d", s.Timestamp)
	if allowed == s.VBNV && len(allowed)+len(end) <= longest {
		return allowed + end
	}
	sum := sha256.Sum256([]byte(s.VBNV))
	end = "-" + hex.EncodeToString(sum[:])[:hashed] + end
	return strings.TrimLeft(allowed[:min(len(allowed), longest-len(end))]+end, "-_.")
}

func isLetter(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
}

// commonU30 is the name of the resource of U30 cards with any shell, without the domain, in
// AMD's device plugin.
const commonU30 = "ama_u30"

// fpgas returns the number of FPGAs on the card's board if there are several; 0 if there is one,
// or the card does not report its board now. A U30 has two.
func (c Card) fpgas() int {
	if c.Board == "u30" || strings.HasPrefix(c.Shell.VBNV, "xilinx_u30") {
		return 2
	}
	return 0
}

// ModelName returns a card's for people, such as "AMD Alveo U250", by the drivers' name of
// the board or, without one, by that of the shell.
func ModelName(board string, s Shell) string {
	if board == "" {
		// Vendor, board, name, version.
		if parts := strings.SplitN(s.VBNV, "_", 3); len(parts) == 3 {
			board = parts[1]
		}
	}
	short := strings.TrimPrefix(board, "xilinx_")
	switch {
	case board == "":
		return "AMD FPGA"
	case strings.HasPrefix(short, "aws-"):
		return "AMD FPGA " + short
	case len(short) > 1 && (short[0] == 'u' || short[0] == 'v') && isDigits(short[1:2]):
		return "AMD Alveo " + strings.ToUpper(short)
	}
	return "AMD FPGA " + strings.ToUpper(short)
}

func isDigits(text string) bool { return text != "" && strings.Trim(text, "0123456789") == "" }
