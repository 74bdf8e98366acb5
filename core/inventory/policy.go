package inventory

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// Policy limits a backend's container edits to what the backend declares and the configuration
// allows or accepts. The nodes that every container has (/dev/null and the like) are always
// allowed.
//
// Always refused are nodes of raw memory, of disks, of the kernel log and of CPU registers,
// block devices and directories of nodes, mounts of the whole root and of [Host.Private], what a
// process has below /proc, and environment variables that would change which code a container
// runs. Names are refused below any directory: the root of a driver, a container or a process
// has a dev and a proc, too.
//
// A path is checked by its name, and then by what it leads to on the host: without links, without
// bind mounts, and by a device's number.
type Policy struct {
	// Allowed are the lists in the configuration.
	Allowed EditScope
	// AcceptDeclared accepts what is declared, within the bounds of [EditScope.Acceptable].
	AcceptDeclared bool
	// Declared is the scope in the backend's needs, and Writes the paths that its process may
	// write. [Store] takes them from the description.
	Declared EditScope
	Writes   []string
	// Host shows what is at the paths.
	Host Host
}

// With returns the policy for a backend of this description.
func (p Policy) With(d Description) Policy {
	p.Declared, p.Writes = d.Edits, d.Writes
	return p
}

// deniedPaths are never given to a container, whatever the policy allows, also not below
// another root.
var deniedPaths = []string{
	"/dev/mem", "/dev/kmem", "/dev/port", "/dev/oldmem", "/dev/nvram", "/dev/snapshot",
	"/dev/kmsg", "/dev/console", "/dev/cpu/**", "/dev/watchdog*",
	// The same nodes by their numbers.
	"/dev/char/**", "/dev/block/**",
	// Disks, their controllers and their partitions.
	"/dev/sd[a-z]*", "/dev/hd[a-z]*", "/dev/vd[a-z]*", "/dev/xvd*", "/dev/nvme*", "/dev/ng[0-9]*",
	"/dev/sg[0-9]*", "/dev/sr[0-9]*", "/dev/st[0-9]*", "/dev/nst[0-9]*", "/dev/bsg/**",
	"/dev/mmcblk*", "/dev/mtd*", "/dev/ubi*", "/dev/pmem*", "/dev/root",
	"/dev/disk/**", "/dev/mapper/**", "/dev/dm-*", "/dev/md[0-9]*", "/dev/md/**", "/dev/bcache*",
	"/dev/loop*", "/dev/ram[0-9]*", "/dev/zram*", "/dev/zd[0-9]*", "/dev/zvol/**",
	"/dev/nbd*", "/dev/rbd*", "/dev/drbd*", "/dev/btrfs-control", "/dev/zfs", "/dev/raw/**", "/dev/mpt[0-9]*ctl",
	"/dev/megaraid_sas_ioctl*", "/dev/aac*", "/dev/tw[ael]*", "/dev/ipmi*",
	// Memory under other names.
	"/dev/dax*", "/dev/cxl/**", "/dev/crash",
	// What a process has: other files for each process that follows the path.
	"/proc/[0-9]*/**", "/proc/self/**", "/proc/thread-self/**",
}

// defaultNodes are in every container: Default Devices in config-linux.md of the OCI
// runtime specification.
var defaultNodes = []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"}

// deniedEnv are prefixes of variables that a backend may never set: they decide which code
// runs, or where the container finds its API server.
var deniedEnv = []string{"LD_", "GLIBC_TUNABLES", "KUBERNETES_"}

// policyError is a refusal by the node's policy, not by the contract.
type policyError struct {
	message string
	// missing are the entries of the configuration's lists without which the edits are refused;
	// none if no list helps.
	missing shortage
}

func (e *policyError) Error() string { return e.message }

// checkDevice checks the host path of a device node.
func (p Policy) checkDevice(hostPath string) error {
	if slices.Contains(defaultNodes, hostPath) {
		return nil
	}
	return p.check(&nodeEdit, hostPath)
}

// checkMount checks the host path of a mount.
func (p Policy) checkMount(hostPath string, writable bool) error {
	if hostPath == "/" {
		return &policyError{message: "a mount of the host's whole root is never allowed; mount the directory that is needed"}
	}
	if writable && !matchAny(p.Declared.Mounts, hostPath) && matchAny(p.Declared.ReadOnlyMounts, hostPath) {
		return &policyError{message: fmt.Sprintf("mount %s is declared read-only; if it must be writable, the backend declares it in its needs (mounts)", quote(hostPath))}
	}
	return p.check(mountKind(writable), hostPath)
}

// checkInterface checks the name of a network interface of the host.
func (p Policy) checkInterface(name string) error {
	if name == "lo" {
		return &policyError{message: "the network interface lo is never given to a container: the node needs it itself"}
	}
	return p.check(&netEdit, name)
}

// checkHook checks the path of an OCI hook program.
func (p Policy) checkHook(program string) error { return p.check(&hookEdit, program) }

// check checks a path, or the name of a variable.
func (p Policy) check(k *editKind, name string) error {
	declared := k.entries(p.Declared)
	switch {
	case denied(name):
		return neverGiven(k, name)
	case !k.matchAny(declared, name):
		return &policyError{message: fmt.Sprintf("%s %s is not among the needs that the backend declares (%s): its program must declare it there",
			k.what, quote(name), k.need)}
	case k.matchAny(k.entries(p.Allowed), name), p.AcceptDeclared && k.accepts(declared, name):
		return nil
	}
	return notAllowed(k.missing(declared, name))
}

// stillAllows checks the paths of edits by name, as far as the configuration decides: another version
// of the backend may declare other needs than it did when they were accepted.
func (p Policy) stillAllows(e Edits) error {
	var missing shortage
	check := func(k *editKind, name string) error {
		if denied(name) {
			return neverGiven(k, name)
		}
		accepted := p.AcceptDeclared && k.acceptable(name)
		if !accepted && !slices.Contains(defaultNodes, name) && !k.matchAny(k.entries(p.Allowed), name) {
			missing = missing.join(k.missing(nil, name))
		}
		return nil
	}
	for _, n := range e.DeviceNodes {
		if err := check(&nodeEdit, n.HostPath); err != nil {
			return err
		}
	}
	for _, m := range e.Mounts {
		if err := check(mountKind(m.Writable), m.HostPath); err != nil {
			return err
		}
	}
	for _, h := range e.Hooks {
		if h.Path == p.Host.NetHook {
			continue
		}
		if err := check(&hookEdit, h.Path); err != nil {
			return err
		}
	}
	if missing.Empty() {
		return nil
	}
	return notAllowed(missing)
}

func neverGiven(k *editKind, name string) error {
	return &policyError{message: fmt.Sprintf("%s %s is never given to a container: it reaches memory, disks, the kernel or other processes", k.what, quote(name))}
}

func notAllowed(missing shortage) error {
	return &policyError{message: "the configuration does not allow some of the edits: " + missing.advice(), missing: missing}
}

// denied reports whether the path is a denied one, below any root, or a directory of which all
// content is denied.
func denied(name string) bool { return reserved(deniedPaths, name) }

func (p Policy) clone() Policy {
	p.Allowed, p.Declared = p.Allowed.clone(), p.Declared.clone()
	return p
}

func (p Policy) equal(o Policy) bool {
	return p.Allowed.Equal(o.Allowed) && p.AcceptDeclared == o.AcceptDeclared && p.Declared.Equal(o.Declared) && p.Host.equal(o.Host)
}

func matchAny(patterns []string, name string) bool {
	for _, pattern := range patterns {
		if match(pattern, name) {
			return true
		}
	}
	return false
}

// match is path.Match. A pattern that ends in "/**" matches if a directory above name matches
// the part before it.
func match(pattern, name string) bool {
	// Most patterns differ from most names before their first wildcard.
	for i := range len(pattern) {
		if c := pattern[i]; c == '*' || c == '?' || c == '[' || c == '\\' {
			break
		} else if i == len(name) || name[i] != c {
			return false
		}
	}
	parent, below := strings.CutSuffix(pattern, "/**")
	if !below {
		ok, err := path.Match(pattern, name)
		return err == nil && ok
	}
	// A wildcard never matches a slash, so the directory to compare is the one
	// with as many slashes as the pattern.
	depth, end := strings.Count(parent, "/"), 0
	for range depth + 1 {
		next := strings.IndexByte(name[end:], '/')
		if next < 0 {
			return false
		}
		end += next + 1
	}
	if end == len(name) {
		return false // the directory itself, or nothing below it
	}
	ok, err := path.Match(parent, name[:end-1])
	return err == nil && ok
}

// checkEnv refuses invalid names, and names that the policy does not allow.
func (p Policy) checkEnv(name string) error {
	if len(name) > maxEnvName || !nameSyntax.MatchString(name) {
		return fmt.Errorf("environment variable %s has an invalid name; use letters, digits, '_', '-' and '.', at most %d, not starting with a digit",
			quote(name), maxEnvName)
	}
	if deniedVariable(name) {
		return &policyError{message: fmt.Sprintf("environment variable %s is never set for a container: it changes what the container runs or trusts",
			quote(name))}
	}
	return p.check(&variedEdit, name)
}

func deniedVariable(name string) bool {
	return name == "PATH" || slices.ContainsFunc(deniedEnv, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}

// gids returns the additional groups that are allowed, sorted, those that the configuration
// does not allow, and those that are neither declared nor owners of a node.
func (p Policy) gids(wire, owners []uint32) (allowed, missing, undeclared []uint32) {
	for _, gid := range slices.Compact(slices.Sorted(slices.Values(wire))) {
		switch declared := slices.Contains(p.Declared.GIDs, gid); {
		case slices.Contains(owners, gid), declared && slices.Contains(p.Allowed.GIDs, gid):
			allowed = append(allowed, gid)
		case declared:
			missing = append(missing, gid)
		default:
			undeclared = append(undeclared, gid)
		}
	}
	return slices.Clip(allowed), missing, undeclared
}
