package inventory

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// Policy limits a backend's container edits to what its manifest has, if the configuration accepts that, and to what the
// configuration's lists have. The nodes that every container has (/dev/null and the like) are always allowed, and what
// nobody gets (never.go) is refused whatever allows it.
//
// A path is checked by its name, and then by what it leads to on the host: without links, without
// bind mounts, and by a device's type and number.
type Policy struct {
	// Allowed are the lists in the configuration.
	Allowed EditScope
	// AcceptDeclared accepts what is declared.
	AcceptDeclared bool
	// Declared is the scope that the manifest has for the settings, and Writes the paths that the process may
	// write. [Store] takes them from the description.
	Declared EditScope
	Writes   []string
	// Host shows what is at the paths.
	Host Host
	// ForAuthor: refusals say what the manifest lacks, not what the configuration does.
	ForAuthor bool
}

// With returns the policy for a backend with this description.
func (p Policy) With(d Description) Policy {
	p.Declared, p.Writes = d.Edits, d.Writes
	return p
}

// defaultNodes are in every container: Default Devices in config-linux.md of the OCI
// runtime specification.
var defaultNodes = []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"}

// policyError is a refusal by the node's policy, not by the contract.
type policyError struct {
	message string
	// missing are the entries of the configuration's lists without which the edits are refused;
	// none if no list helps.
	missing shortage
	// gone: a file is not on the node, or not visible.
	gone bool
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
	switch {
	case p.never(k, name):
		return neverGiven(k, name)
	case p.allows(k, name):
		return nil
	}
	return p.notAllowed(p.missing(k, name))
}

// allows reports whether the lists have a path or name, or the manifest has it and that is accepted.
func (p Policy) allows(k *editKind, name string) bool {
	return k.matchAny(k.entries(p.Allowed), name) || p.AcceptDeclared && k.matchAny(k.entries(p.Declared), name)
}

// never reports whether a path or name is given to nobody.
func (p Policy) never(k *editKind, name string) bool {
	return isNever(k.use, name, slices.Contains(k.entries(p.Allowed), name))
}

// stillAllows checks the paths of edits by name, as far as the configuration decides: the manifest may be another one than
// when they were accepted, or have had more for other settings.
func (p Policy) stillAllows(e Edits) error {
	var missing shortage
	check := func(k *editKind, name string) error {
		if p.never(k, name) {
			return neverGiven(k, name)
		}
		if !p.AcceptDeclared && !slices.Contains(defaultNodes, name) && !k.matchAny(k.entries(p.Allowed), name) {
			missing = missing.join(p.missing(k, name))
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
	return p.notAllowed(missing)
}

func neverGiven(k *editKind, name string) error {
	return &policyError{message: fmt.Sprintf("%s %s is never given to a container: %s", k.what, quote(name), whyNever(k.use, name))}
}

func (p Policy) notAllowed(missing shortage) error {
	message := "the configuration does not allow some of the edits: " + missing.advice()
	if p.ForAuthor {
		message = missing.forAuthor()
	}
	return &policyError{message: message, missing: missing}
}

// whyNever completes the message about what is given to nobody.
func whyNever(u Use, name string) string {
	if IsDisk(u, name) {
		return "it is a disk; allow.devices gives one by its exact path"
	}
	return "it reaches memory, disks, the kernel, other processes or what controls the node"
}

func (p Policy) clone() Policy {
	p.Allowed, p.Declared = p.Allowed.clone(), p.Declared.clone()
	return p
}

func (p Policy) equal(o Policy) bool {
	return p.Allowed.Equal(o.Allowed) && p.AcceptDeclared == o.AcceptDeclared && p.Declared.Equal(o.Declared) && p.Host.equal(o.Host)
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
	if isNever(UseEnv, name, false) {
		return &policyError{message: fmt.Sprintf("environment variable %s is never set for a container: it changes what the container runs or trusts",
			quote(name))}
	}
	return p.check(&variedEdit, name)
}

// gids returns the additional groups that are allowed, sorted, and those that are not.
func (p Policy) gids(wire, owners []uint32) (allowed, missing []uint32) {
	for _, gid := range slices.Compact(slices.Sorted(slices.Values(wire))) {
		if slices.Contains(owners, gid) || slices.Contains(p.Allowed.GIDs, gid) || p.AcceptDeclared && slices.Contains(p.Declared.GIDs, gid) {
			allowed = append(allowed, gid)
		} else {
			missing = append(missing, gid)
		}
	}
	return slices.Clip(allowed), missing
}
