package inventory

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// Policy limits a backend's container edits to what is both allowed and declared. The nodes
// that every container has (/dev/null and the like) are always allowed.
//
// Always refused are nodes of raw memory, of disks, of the kernel log and of CPU registers,
// block devices and directories of nodes, mounts of the whole root, and environment
// variables that would change which code a container runs. Nodes are refused below any
// directory called dev: the root of a driver, a container or a process has one, too.
type Policy struct {
	// Allowed is the scope in the configuration.
	Allowed EditScope
	// Declared is the scope in the backend's needs. [Store] takes it from the description.
	Declared EditScope
	// Nodes resolves and checks the device nodes.
	Nodes HostNodes
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

// policyError is a refusal by the node's policy, not by the contract.
type policyError struct{ message string }

func (e *policyError) Error() string { return e.message }

// checkDevice checks the host path of a device node, and the node itself, and returns the
// node. If this process cannot see the node, only its path is checked.
func (p Policy) checkDevice(hostPath string) (HostNode, error) {
	if !slices.Contains(defaultNodes, hostPath) {
		if err := check("device node", hostPath, "device_nodes", p.Declared.Devices, "allow.devices", p.Allowed.Devices); err != nil {
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
	declared, allowed := p.Declared.Mounts, p.Allowed.Mounts
	if !writable {
		declared, allowed = slices.Concat(declared, p.Declared.ReadOnlyMounts), slices.Concat(allowed, p.Allowed.ReadOnlyMounts)
	}
	err := check("mount", hostPath, "mounts", declared, "allow.mounts", allowed)
	if err != nil && writable && p.checkMount(hostPath, false) == nil {
		return &policyError{fmt.Sprintf("mount %s is declared or allowed read-only; if it must be writable, the backend declares it in its needs (mounts), and allow.mounts of this backend has it",
			quote(hostPath))}
	}
	return err
}

// checkHook checks the path of an OCI hook program.
func (p Policy) checkHook(program string) error {
	return check("hook program", program, "hooks", p.Declared.Hooks, "allow.hooks", p.Allowed.Hooks)
}

func check(what, name, need string, declared []string, field string, allowed []string) error {
	switch {
	case denied(name):
		return &policyError{fmt.Sprintf("%s %s is never given to a container: it reaches memory, disks or the kernel",
			what, quote(name))}
	case !matchAny(declared, name):
		return undeclared(what, name, need)
	case !matchAny(allowed, name):
		return &policyError{fmt.Sprintf("%s %s is outside of what the configuration allows; if it is needed, add it to %s of this backend",
			what, quote(name), field)}
	}
	return nil
}

// undeclared is the error of an edit that the backend's needs do not name.
func undeclared(what, name, need string) error {
	return &policyError{fmt.Sprintf("%s %s is not among the needs that the backend declares (%s): its program must declare it there",
		what, quote(name), need)}
}

// denied reports whether the path, from one of the directories called dev in it, is a denied
// path, or a directory of which all content is denied.
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
	p.Allowed, p.Declared = p.Allowed.clone(), p.Declared.clone()
	return p
}

func (p Policy) equal(o Policy) bool {
	return p.Allowed.equal(o.Allowed) && p.Declared.equal(o.Declared) && p.Nodes == o.Nodes
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
		return fmt.Errorf("environment variable %s has an invalid name; use letters, digits and '_', at most %d, not starting with a digit",
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
	if !matchName(p.Declared.Env, name) {
		return undeclared("environment variable", name, "env")
	}
	if !matchName(p.Allowed.Env, name) {
		return &policyError{fmt.Sprintf("environment variable %s is outside of what the configuration allows; if it is needed, add it to allow.env of this backend",
			quote(name))}
	}
	return nil
}

// matchName matches names of variables; "*" at the end of a pattern matches any suffix.
func matchName(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		prefix, wildcard := strings.CutSuffix(pattern, "*")
		return name == pattern || wildcard && strings.HasPrefix(name, prefix)
	})
}

// gids returns the additional groups that are allowed, sorted, and those that are refused.
func (p Policy) gids(wire []uint32, owners []uint32) (allowed, refused []uint32) {
	for _, gid := range slices.Compact(slices.Sorted(slices.Values(wire))) {
		if slices.Contains(owners, gid) || slices.Contains(p.Allowed.GIDs, gid) && slices.Contains(p.Declared.GIDs, gid) {
			allowed = append(allowed, gid)
		} else {
			refused = append(refused, gid)
		}
	}
	return slices.Clip(allowed), refused
}
