package supervisor

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/text"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// maxNeeds bounds each list of a backend's needs, and maxNeed the bytes of one entry.
const (
	maxNeeds = 256
	maxNeed  = 4095
)

var (
	// capability is a name as in capabilities(7).
	capability = regexp.MustCompile(`^CAP_[A-Z0-9_]{1,60}$`)
	// callGroup is the name of a group of system calls as in systemd.exec(5).
	callGroup = regexp.MustCompile(`^@[a-z0-9-]{1,60}$`)
	// companionName is the first argument of a companion.
	companionName = regexp.MustCompile(`^[a-z0-9-]{1,32}$`)
	// variable is a name of an environment variable, or a prefix and "*".
	variable = regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_.-]{0,254}\*?|\*)$`)
)

// ParseNeeds checks what a backend declares that it needs; nil needs nothing. The error is for
// the operator.
func ParseNeeds(wire *backendv1.Needs) (inventory.Needs, error) {
	for _, list := range []struct {
		field   string
		entries []string
		check   func(string) bool
		right   string
	}{
		{"read_paths", wire.GetReadPaths(), isPattern, pathPattern},
		{"list_paths", wire.GetListPaths(), isPattern, pathPattern},
		{"write_paths", wire.GetWritePaths(), isPattern, pathPattern},
		{"open_devices", wire.GetOpenDevices(), isPattern, pathPattern},
		{"capabilities", wire.GetCapabilities(), capability.MatchString, "a capability such as CAP_SYS_ADMIN"},
		{"system_calls", wire.GetSystemCalls(), callGroup.MatchString, "a group of system calls such as @raw-io"},
		{"companions", wire.GetCompanions(), companionName.MatchString, `a name of up to 32 lower-case letters, digits and "-"`},
		{"device_nodes", wire.GetDeviceNodes(), isPattern, pathPattern},
		{"mounts", wire.GetMounts(), isPattern, pathPattern},
		{"read_only_mounts", wire.GetReadOnlyMounts(), isPattern, pathPattern},
		{"hooks", wire.GetHooks(), isPattern, pathPattern},
		{"env", wire.GetEnv(), variable.MatchString, `a variable's name, or the beginning of one and "*"`},
		{"net_devices", wire.GetNetDevices(), isInterface, "the name of a network interface, with the patterns of path.Match"},
	} {
		if len(list.entries) > maxNeeds {
			return inventory.Needs{}, fmt.Errorf("its needs have %d entries in %s; at most %d are possible", len(list.entries), list.field, maxNeeds)
		}
		if i := slices.IndexFunc(list.entries, func(entry string) bool { return !list.check(entry) }); i >= 0 {
			return inventory.Needs{}, fmt.Errorf("its needs have %q in %s, which is not %s", text.Printable(list.entries[i], 128), list.field, list.right)
		}
	}
	if gids := wire.GetGids(); len(gids) > maxNeeds || slices.Contains(gids, 0) {
		return inventory.Needs{}, fmt.Errorf("its needs have %d groups; at most %d are possible, and root's is not", len(gids), maxNeeds)
	}
	return inventory.Needs{
		ReadPaths: wire.GetReadPaths(), ListPaths: wire.GetListPaths(), WritePaths: wire.GetWritePaths(), OpenDevices: wire.GetOpenDevices(),
		Capabilities: wire.GetCapabilities(), SystemCalls: wire.GetSystemCalls(), Companions: wire.GetCompanions(),
		Edits: inventory.EditScope{
			Devices: wire.GetDeviceNodes(), Mounts: wire.GetMounts(), ReadOnlyMounts: wire.GetReadOnlyMounts(),
			Hooks: wire.GetHooks(), Env: wire.GetEnv(), GIDs: wire.GetGids(), NetDevices: wire.GetNetDevices(),
		},
	}.Join(inventory.Needs{}), nil
}

const pathPattern = `an absolute and clean path, with the patterns of path.Match and "/**" at the end`

func isPattern(entry string) bool {
	_, err := path.Match(entry, "")
	plain := strings.TrimSuffix(entry, "/**")
	return err == nil && len(entry) <= maxNeed && entry == text.Printable(entry, maxNeed) && strings.HasPrefix(entry, "/") &&
		(plain == "" || path.Clean(plain) == plain)
}

func isInterface(entry string) bool {
	_, err := path.Match(entry, "")
	return err == nil && entry != "" && len(entry) <= maxNeed && entry == text.Printable(entry, maxNeed) && !strings.ContainsAny(entry, "/: ")
}
