package inventory

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/accelmux/accelmux/core/text"
	"github.com/accelmux/accelmux/proto/backendplugin"
)

// The bounds of one report. The first group is part of the contract
// (proto/accelmux/backend/v1), the second is ours and far above what hardware needs.
const (
	// MaxDevices is how many devices a backend may list.
	MaxDevices = backendplugin.MaxDevices
	// MaxProblems bounds the problems of a report of each of three kinds: devices left out,
	// problems that the backend reports, and defects of devices that stay. One more has the
	// number of those beyond it.
	MaxProblems = 64

	// IDMark separates a device's ID from what follows it in other names: the number of a
	// replica in a unit's ID, the digest of a CDI definition. No device ID contains it.
	IDMark = "::"

	maxID           = 63
	maxCode         = 63
	maxMessage      = 1024
	maxNames        = 128 // attributes and capacities of a device together
	maxName         = 32
	maxDomain       = 63
	maxValues       = 48 // of an attribute that is a list
	maxCleared      = 32
	maxPolicyValues = 10
	maxSets         = MaxDevices // counter sets of an inventory
	maxCounters     = 32
	maxConsumptions = 2
	maxString       = 64
	maxLinks        = 1024    // of a device
	maxAllLinks     = 1 << 16 // of a backend's devices, each the same part
	maxResetGroup   = 128
	maxHolder       = 253

	maxClass     = 63
	maxNUMANode  = 1023 // MAX_NUMNODES - 1 of every kernel configuration
	maxNUMANodes = 64
	maxLinkCount = 4096
	maxParents   = 8 // levels of partitions of partitions

	maxEnv        = 128
	maxEnvName    = 256
	maxEnvValue   = 4096
	maxSeparator  = 16
	maxNodes      = 256
	maxMounts     = 256
	maxNetDevices = 16
	maxOptions    = 16
	maxHooks      = 16
	maxHookArgs   = 256 // nvidia-cdi-hook had 92 for an H200 with driver 580
	maxHookArg    = 4096
	maxGIDs       = 64
	maxPath       = 4095 // PATH_MAX without its NUL
	maxQuote      = 80
	maxStatement  = MaxDevices // superseded statements of a backend
	statementAge  = time.Minute
)

var (
	idSyntax    = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.:-]*$`)
	codeSyntax  = regexp.MustCompile(`^[A-Za-z0-9_.-]+$`)
	classSyntax = regexp.MustCompile(`^[a-z][a-z0-9-]*$`)
	// nameSyntax is that of variables: kubelet's own (IsEnvVarName), as KubeVirt's names have "-".
	nameSyntax    = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]*$`)
	pciSyntax     = regexp.MustCompile(`^[0-9a-f]{4,8}:[0-9a-f]{2}:[01][0-9a-f]\.[0-7]$`)
	versionSyntax = regexp.MustCompile(`^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)` +
		`(-(0|[1-9]\d*|\d*[A-Za-z-][0-9A-Za-z-]*)(\.(0|[1-9]\d*|\d*[A-Za-z-][0-9A-Za-z-]*))*)?` +
		`(\+[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?$`)
)

// checkID checks the syntax of device IDs; what is the field in the error.
func checkID(what, id string) error {
	switch {
	case id == "":
		return fmt.Errorf("%s is empty; every device needs one that identifies the hardware", what)
	case len(id) > maxID:
		return fmt.Errorf("%s has %d characters; at most %d are allowed", what, len(id), maxID)
	case !idSyntax.MatchString(id):
		return fmt.Errorf("%s %s must be of A-Z, a-z, 0-9, '_', '.', ':' and '-', and start with a letter or digit",
			what, quote(id))
	case strings.Contains(id, IDMark):
		return fmt.Errorf(`%s %s contains "::", which marks replicas; use a single ':'`, what, quote(id))
	}
	return nil
}

// checkVersion checks semver.org's syntax, with numbers that fit a uint64: CEL's semver
// refuses others.
func checkVersion(v string) error {
	if len(v) > maxString {
		return fmt.Errorf("has %d bytes; at most %d are allowed", len(v), maxString)
	}
	if !versionSyntax.MatchString(v) {
		return fmt.Errorf("%s is not a semantic version; write major.minor.patch, such as 535.104.5", quote(v))
	}
	core, _, _ := strings.Cut(v, "+")
	for _, part := range strings.FieldsFunc(core, func(r rune) bool { return r == '.' || r == '-' }) {
		if _, err := strconv.ParseUint(part, 10, 64); err != nil && strings.Trim(part, "0123456789") == "" {
			return fmt.Errorf("%s has a number above 2^64; use smaller numbers", quote(v))
		}
	}
	return nil
}

// checkText refuses a text that is too long, or that had what cannot be printed when it arrived.
func checkText(s string, limit int) error {
	if len(s) > limit {
		return fmt.Errorf("has %d bytes; at most %d are allowed", len(s), limit)
	}
	if !text.IsClean(s) {
		return fmt.Errorf("%s contains control characters or is not valid UTF-8; trim what was read from the driver", quote(s))
	}
	return nil
}

// quote returns a string of a backend in quotes, and short.
func quote(s string) string { return text.Quote(s, maxQuote) }
