package inventory

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// Policy is an allow-list for a backend's container edits. Patterns of paths are absolute
// and in the syntax of path.Match; one that ends in "/**" matches everything below it. An
// empty list allows nothing, and a malformed pattern matches nothing. The nodes that every
// container has (/dev/null and the like) are always allowed.
//
// Always refused are nodes of raw memory, of disks, of the kernel log and of CPU registers,
// block devices and directories of nodes, mounts of the whole root, and environment
// variables that would change which code a container runs. Nodes are refused below any
// directory called dev: the root of a driver, a container or a process has one, too.
type Policy struct {
	// Devices are host paths of device nodes.
	Devices []string
	// Mounts are host paths that may be mounted, ReadOnlyMounts those that may only be
	// mounted read-only.
	Mounts, ReadOnlyMounts []string
	// Hooks are paths of OCI hook programs.
	Hooks []string
	// Env are names of environment variables, of containers and of hooks. One that ends in
	// "*" matches all names with that prefix.
	Env []string
	// GIDs are additional groups. A group that owns one of the device nodes in the same
	// edits is always allowed.
	GIDs []uint32
	// Nodes resolves and checks the device nodes.
	Nodes HostNodes
}

// deniedPaths are never given to a container, whatever the policy allows, nor is
// what has the same path below another root.
var deniedPaths = []string{
	"/dev/mem", "/dev/kmem", "/dev/port", "/dev/oldmem", "/dev/nvram", "/dev/snapshot",
	"/dev/kmsg", "/dev/console", "/dev/cpu/**", "/dev/watchdog*",
	// By number: the same nodes under names that say nothing.
	"/dev/char/**", "/dev/block/**",
	// Disks, their controllers and their partitions.
	"/dev/sd[a-z]*", "/dev/hd[a-z]*", "/dev/vd[a-z]*", "/dev/xvd*", "/dev/nvme*", "/dev/ng[0-9]*",
	"/dev/sg[0-9]*", "/dev/sr[0-9]*", "/dev/st[0-9]*", "/dev/nst[0-9]*", "/dev/bsg/**",
	"/dev/mmcblk*", "/dev/mtd*", "/dev/ubi*", "/dev/pmem*", "/dev/root",
	"/dev/disk/**", "/dev/mapper/**", "/dev/dm-*", "/dev/md[0-9]*", "/dev/md/**", "/dev/bcache*",
	"/dev/loop*", "/dev/ram[0-9]*", "/dev/zram*", "/dev/zd[0-9]*", "/dev/zvol/**",
	"/dev/nbd*", "/dev/rbd*", "/dev/drbd*", "/dev/btrfs-control", "/dev/zfs", "/dev/raw/**", "/dev/mpt[0-9]*ctl",
	"/dev/megaraid_sas_ioctl_node", "/dev/ipmi*",
	// Memory under other names.
	"/dev/dax*", "/dev/cxl/**", "/dev/crash",
}

// defaultNodes are in every container: Default Devices in config-linux.md of the OCI
// runtime specification.
var defaultNodes = []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"}

// deniedEnv are prefixes of variables that a backend may never set: they decide which code
// runs, or where the container finds its API server.
var deniedEnv = []string{"LD_", "GLIBC_TUNABLES", "KUBERNETES_"}

// policyError says that the node's policy, not the contract, refuses something.
type policyError struct{ message string }

func (e *policyError) Error() string { return e.message }

// checkDevice checks the host path of a device node, and the node itself, and returns the
// node. If this process cannot see the node, only its path is checked.
func (p Policy) checkDevice(hostPath string) (HostNode, error) {
	if !slices.Contains(defaultNodes, hostPath) {
		if err := check("device node", hostPath, "allow.devices", p.Devices); err != nil {
			return HostNode{}, err
		}
	}
	node, err := p.Nodes.Find(hostPath)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return HostNode{}, &policyError{err.Error()}
	}
	return node, nil
}

// checkMount checks the host path of a mount.
func (p Policy) checkMount(hostPath string, writable bool) error {
	if hostPath == "/" {
		return &policyError{"a mount of the host's whole root is never allowed; mount the directory that is needed"}
	}
	err := check("mount", hostPath, "allow.mounts", p.Mounts)
	if err == nil || check("mount", hostPath, "", p.ReadOnlyMounts) != nil {
		return err
	}
	if writable {
		return &policyError{fmt.Sprintf("mount %s is allowed read-only; if it must be writable, add it to allow.mounts of this backend", quote(hostPath))}
	}
	return nil
}

// checkHook checks the path of an OCI hook program.
func (p Policy) checkHook(program string) error {
	return check("hook program", program, "allow.hooks", p.Hooks)
}

func check(what, name, field string, patterns []string) error {
	if denied(name) {
		return &policyError{fmt.Sprintf("%s %s is never given to a container: it reaches memory, disks or the kernel",
			what, quote(name))}
	}
	if !matchAny(patterns, name) {
		return &policyError{fmt.Sprintf("%s %s is outside of what the configuration allows; if it is needed, add it to %s of this backend",
			what, quote(name), field)}
	}
	return nil
}

// denied reports whether the path, from one of the directories called dev in it,
// is a denied one, or the directory that all of such are in.
func denied(name string) bool {
	const dev = "/dev/"
	for {
		i := strings.Index(name, dev)
		if i < 0 {
			return false
		}
		name = name[i:]
		if matchAny(deniedPaths, name) || matchAny(deniedPaths, name+"/.") {
			return true
		}
		name = name[len(dev)-1:]
	}
}

func (p Policy) clone() Policy {
	p.Devices, p.Mounts, p.ReadOnlyMounts = slices.Clone(p.Devices), slices.Clone(p.Mounts), slices.Clone(p.ReadOnlyMounts)
	p.Hooks, p.Env, p.GIDs = slices.Clone(p.Hooks), slices.Clone(p.Env), slices.Clone(p.GIDs)
	return p
}

func (p Policy) equal(o Policy) bool {
	return slices.Equal(p.Devices, o.Devices) && slices.Equal(p.Mounts, o.Mounts) &&
		slices.Equal(p.ReadOnlyMounts, o.ReadOnlyMounts) && slices.Equal(p.Hooks, o.Hooks) &&
		slices.Equal(p.Env, o.Env) && slices.Equal(p.GIDs, o.GIDs) && p.Nodes == o.Nodes
}

func matchAny(patterns []string, name string) bool {
	for _, pattern := range patterns {
		if match(pattern, name) {
			return true
		}
	}
	return false
}

// match is path.Match, and with "/**" at the end of the pattern: whether some
// directory above name matches what is before it.
func match(pattern, name string) bool {
	// Most patterns differ from most names before their first wildcard.
	literal := pattern
	if i := strings.IndexAny(pattern, `*?[\`); i >= 0 {
		literal = pattern[:i]
	}
	if !strings.HasPrefix(name, literal) {
		return false
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
		return fmt.Errorf("environment variable %s is no name; use letters, digits and '_', at most %d, not starting with a digit",
			quote(name), maxEnvName)
	}
	if name == "PATH" {
		return &policyError{"environment variable PATH belongs to the container's image; leave it out"}
	}
	for _, prefix := range deniedEnv {
		if strings.HasPrefix(name, prefix) {
			return &policyError{fmt.Sprintf("environment variable %s is never set for a container: it changes what the container runs or trusts",
				quote(name))}
		}
	}
	for _, allowed := range p.Env {
		prefix, wildcard := strings.CutSuffix(allowed, "*")
		if name == allowed || wildcard && strings.HasPrefix(name, prefix) {
			return nil
		}
	}
	return &policyError{fmt.Sprintf("environment variable %s is outside of what the configuration allows; if it is needed, add it to allow.env of this backend",
		quote(name))}
}

// gids returns the additional groups that are allowed, sorted, and those that are refused.
func (p Policy) gids(wire []uint32, owners []uint32) (allowed, refused []uint32) {
	for _, gid := range slices.Compact(slices.Sorted(slices.Values(wire))) {
		if slices.Contains(owners, gid) || slices.Contains(p.GIDs, gid) {
			allowed = append(allowed, gid)
		} else {
			refused = append(refused, gid)
		}
	}
	return slices.Clip(allowed), refused
}
