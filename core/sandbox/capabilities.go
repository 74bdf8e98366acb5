package sandbox

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// capabilityNames are those of linux/capability.h, by number.
var capabilityNames = strings.Fields(`CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID KILL SETGID SETUID SETPCAP LINUX_IMMUTABLE
	NET_BIND_SERVICE NET_BROADCAST NET_ADMIN NET_RAW IPC_LOCK IPC_OWNER SYS_MODULE SYS_RAWIO SYS_CHROOT SYS_PTRACE SYS_PACCT
	SYS_ADMIN SYS_BOOT SYS_NICE SYS_RESOURCE SYS_TIME SYS_TTY_CONFIG MKNOD LEASE AUDIT_WRITE AUDIT_CONTROL SETFCAP
	MAC_OVERRIDE MAC_ADMIN SYSLOG WAKE_ALARM BLOCK_SUSPEND AUDIT_READ PERFMON BPF CHECKPOINT_RESTORE`)

// set is a set of capabilities, a bit each.
type set uint64

// IsCapability reports whether a name is that of a capability, such as "CAP_SYS_ADMIN".
func IsCapability(name string) bool { return setOf([]string{name}) != 0 }

// setOf returns the set of capabilities with these names; unknown names are ignored.
func setOf(names []string) (all set) {
	for _, name := range names {
		rest, ok := strings.CutPrefix(name, "CAP_")
		if i := slices.Index(capabilityNames, rest); ok && i >= 0 {
			all |= 1 << i
		}
	}
	return all
}

func (c set) String() string {
	var names []string
	for i, name := range capabilityNames {
		if c&(1<<i) != 0 {
			names = append(names, "CAP_"+name)
		}
	}
	return strings.Join(names, " ")
}

// permitted returns the thread's permitted capabilities.
func permitted() (set, error) {
	var data [2]unix.CapUserData
	if err := unix.Capget(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &data[0]); err != nil {
		return 0, fmt.Errorf("read the capabilities: %w", err)
	}
	return set(data[0].Permitted) | set(data[1].Permitted)<<32, nil
}

// capset sets the thread's capabilities.
func capset(effective, permitted, inheritable set) error {
	half := func(shift int) unix.CapUserData {
		return unix.CapUserData{Effective: uint32(effective >> shift), Permitted: uint32(permitted >> shift), Inheritable: uint32(inheritable >> shift)} //nolint:gosec // a half
	}
	data := [2]unix.CapUserData{half(0), half(32)}
	if err := unix.Capset(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &data[0]); err != nil {
		return fmt.Errorf("set the capabilities: %w", err)
	}
	return nil
}

// bound decides which capabilities the program gets: the declared ones that this process has. It removes the
// others from the bounding set.
func (s *shim) bound() {
	have, err := permitted()
	s.granted, s.capsErr = have&setOf(s.Needs.Capabilities), err
	for i := range capabilityNames {
		if s.granted&(1<<i) == 0 {
			// Without CAP_SETPCAP they stay, and no program gains them because of no_new_privs.
			_ = unix.Prctl(unix.PR_CAPBSET_DROP, uintptr(i), 0, 0, 0)
		}
	}
}

// capabilities drops all other capabilities. Those of the program are also ambient: otherwise execve(2)
// takes them from a user who is not root.
func (s *shim) capabilities() {
	if s.capsErr == nil {
		s.capsErr = capset(s.granted, s.granted, s.granted)
	}
	for i := range capabilityNames {
		if s.capsErr == nil && s.granted&(1<<i) != 0 {
			s.capsErr = unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_RAISE, uintptr(i), 0, 0)
		}
	}
}

// capabilityDetail describes the program's capabilities.
func (s *shim) capabilityDetail() string {
	text := s.granted.String()
	if lacking := setOf(s.Needs.Capabilities) &^ s.granted; lacking != 0 {
		text = strings.TrimSpace(text + " (the agent itself lacks " + lacking.String() + ")")
	}
	return text
}

// checkCapabilities returns an error if the thread has others than the program's.
func (s *shim) checkCapabilities(field func(string) string) error {
	if s.capsErr != nil {
		return s.capsErr
	}
	for _, kind := range []string{"CapInh", "CapPrm", "CapEff", "CapAmb"} {
		value, err := strconv.ParseUint(field(kind), 16, 64)
		if more := set(value) &^ s.granted; err != nil || more != 0 {
			return fmt.Errorf("the kernel reports %s in %s: %w", more, kind, err)
		}
	}
	return nil
}
