package inventory

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/accelmux/accelmux/core/hostfs"
)

// Host gives access to the host's files, and network interfaces.
type Host struct {
	hostfs.Host
	// NetHook is the host's path of accelmux-net-hook, which moves network interfaces into
	// containers; "" if it is not installed.
	NetHook string
	// Private are directories of the host that no container gets, nor a directory around them:
	// kubelet's, those of CDI specs, and the agent's own.
	Private []string
}

func (h Host) equal(o Host) bool {
	return h.Host == o.Host && h.NetHook == o.NetHook && slices.Equal(h.Private, o.Private)
}

// Files returns the host's paths of the mounts and hook programs of edits, but for the agent's own program.
func (h Host) Files(e Edits) (paths []string) {
	for _, m := range e.Mounts {
		paths = append(paths, m.HostPath)
	}
	for _, hook := range e.Hooks {
		if h.has(hook) {
			paths = append(paths, hook.Path)
		}
	}
	return paths
}

// has reports whether a hook runs a program of the host that is not the agent's own.
func (h Host) has(hook OCIHook) bool { return hook.Name != hookInContainer && hook.Path != h.NetHook }

// hostCheck checks what paths of container edits lead to on the host now. What this process cannot
// see is refused, but for device nodes in /dev, which may be missing. Without a host, in the zero Host,
// nothing is checked.
type hostCheck struct {
	policy Policy
	view   *hostfs.View
	// earlier: the edits were accepted by what the manifest had then.
	earlier bool
	// absent: files that are missing are accepted.
	absent bool
	// private and writes are the policy's, also without links and bind mounts; made at the first
	// use.
	private, writes []string
	ready           bool
}

func newHostCheck(p Policy) *hostCheck { return &hostCheck{policy: p, view: p.Host.View()} }

// edits checks edits that [ParseEdits] returned earlier, and returns them with the paths of
// nodes and mounts without links. The error is for the operator.
func (c *hostCheck) edits(e Edits) (Edits, error) {
	e.DeviceNodes, e.Mounts = slices.Clone(e.DeviceNodes), slices.Clone(e.Mounts)
	for i, n := range e.DeviceNodes {
		f, err := c.node(n)
		if err != nil {
			return Edits{}, err
		}
		e.DeviceNodes[i].HostPath = f.Path
	}
	for i, m := range e.Mounts {
		f, err := c.mount(m.HostPath, m.Writable)
		if err != nil {
			return Edits{}, err
		}
		e.Mounts[i].HostPath = f.Path
	}
	for _, h := range e.Hooks {
		if err := c.hook(h); err != nil {
			return Edits{}, err
		}
	}
	return e, nil
}

// refuse returns a refusal that no entry of the configuration's lists would change, or that says
// itself which one would.
func refuse(format string, args ...any) error {
	return &policyError{message: fmt.Sprintf(format, args...)}
}

// node checks a device node: the host's, or, if the host has none, the one that a runtime makes by its numbers. Regular files
// are accepted: runtimes refuse them, and tests use them instead of nodes.
func (c *hostCheck) node(n DeviceNode) (*hostfs.File, error) {
	hostPath := n.HostPath
	f, err := c.find(&nodeEdit, hostPath)
	switch isMissing := f != nil && f.Hidden && f.Path == hostPath && strings.HasPrefix(hostPath, "/dev/"); {
	case err != nil:
		return nil, err
	case isMissing && (n.Major == 0 || c.policy.Host.Devfs == ""):
		return f, nil
	case isMissing:
		f = c.view.Made(hostPath, n.Type == "b", n.Major, n.Minor)
	case f.Hidden:
		return f, c.hidden(&nodeEdit, hostPath, f)
	case n.Major != 0 && !f.HasNumber(n.Type == "b", n.Major, n.Minor):
		return nil, refuse("device node %s is reported as %s %d:%d, and is another one on the node: report the number that it has, or none", quote(hostPath), n.Type, n.Major, n.Minor)
	}
	isBlock := f.IsBlock()
	switch kind := refusedKind(f.Mode); {
	case isBlock && slices.Contains(c.policy.Allowed.Devices, f.Path):
	case isBlock:
		return nil, refuse("device node %s is %s, which no pattern gives to containers: if they may have it, add to this backend allow: %s",
			quote(hostPath), kind, EditScope{Devices: []string{escape(f.Path)}}.YAML())
	case kind != "":
		return nil, refuse("device node %s is %s; only devices are given to containers as nodes", quote(hostPath), kind)
	}
	if err := c.exchangeable(&nodeEdit, hostPath, f); err != nil || isBlock && !f.Hidden {
		return f, err
	}
	return f, c.number(hostPath, f)
}

// refusedKind names a kind of file that containers never get as a device node; "" for others.
func refusedKind(mode fs.FileMode) string {
	switch mode.Type() {
	case fs.ModeDevice | fs.ModeCharDevice, 0:
		return ""
	case fs.ModeDevice:
		return "a block device"
	case fs.ModeDir:
		return "a directory"
	}
	return "a pipe or a socket"
}

// mount checks the source of a mount: what its links lead to, and where that and all that is
// mounted below it really is.
func (c *hostCheck) mount(hostPath string, writable bool) (*hostfs.File, error) {
	k := mountKind(writable)
	if c.isPrivate(hostPath) {
		return nil, refuse("mount %s is never given to a container: %s", quote(hostPath), whyPrivate)
	}
	f, err := c.find(k, hostPath)
	if err != nil {
		return nil, err
	}
	if f.Hidden {
		return f, c.hidden(k, hostPath, f)
	}
	places, err := f.Places()
	if err != nil {
		return nil, refuse("mount %s %s", quote(hostPath), err)
	}
	for _, place := range places {
		if !isBelow(f.Path, place) {
			if err := c.leads(k, hostPath, "is a mount of", place, false); err != nil {
				return nil, err
			}
		}
	}
	if err := c.exchangeable(k, hostPath, f); err != nil || !f.IsDevice() {
		return f, err
	}
	if refusedKind(f.Mode) != "" {
		return nil, refuse("mount %s is %s, which containers never get", quote(hostPath), refusedKind(f.Mode))
	}
	return f, c.number(hostPath, f)
}

func mountKind(writable bool) *editKind {
	if writable {
		return &mountEdit
	}
	return &readEdit
}

// pinned splits an entry of allow.hooks, PATTERN or PATTERN@sha256:DIGEST.
var pinned = regexp.MustCompile(`^(.*)@sha256:([0-9a-f]{64})$`)

// programs returns the patterns of entries of allow.hooks.
func programs(entries []string) []string {
	patterns := make([]string, len(entries))
	for i, entry := range entries {
		patterns[i] = pinned.ReplaceAllString(entry, "$1")
	}
	return patterns
}

// digests returns those of which the program must have one; none if any will do.
func (p Policy) digests(program string) (all []string) {
	for _, entry := range p.Allowed.Hooks {
		parts := pinned.FindStringSubmatch(entry)
		if parts == nil && match(entry, program) {
			return nil
		} else if parts != nil && match(parts[1], program) {
			all = append(all, parts[2])
		}
	}
	return all
}

// hook checks a hook program, which runs as root on the host: only root can change it, and it is
// the one that the configuration names by its digest. The agent's own needs no check.
func (c *hostCheck) hook(h OCIHook) error {
	if !c.policy.Host.has(h) {
		return nil
	}
	f, err := c.find(&hookEdit, h.Path)
	if err != nil {
		return err
	}
	digests := c.policy.digests(h.Path)
	switch {
	case f.Hidden:
		return c.hidden(&hookEdit, h.Path, f)
	case !f.Mode.IsRegular():
		return refuse("hook program %s is not a regular file", quote(h.Path))
	case !isRoots(f.UID) || f.Mode.Perm()&0o022 != 0:
		return refuse("hook program %s can be changed by others than root, and runs as root: chown root:root %s and chmod go-w %[2]s", quote(h.Path), f.Path)
	}
	if dir := changeable(f); dir != "" {
		return refuse("hook program %s can be exchanged by others than root, and runs as root: chown root:root %s and chmod go-w %[2]s", quote(h.Path), dir)
	}
	if err := c.exchangeable(&hookEdit, h.Path, f); err != nil || len(digests) == 0 {
		return err
	}
	digest, err := f.Digest()
	if err != nil {
		return refuse("hook program %s %s", quote(h.Path), err)
	}
	if !slices.Contains(digests, digest) {
		return refuse("hook program %s is another one than the configuration allows: if it was updated, add to this backend allow: {hooks: ['%s@sha256:%s']}", quote(h.Path), escape(h.Path), digest)
	}
	return nil
}

// pin adds the digest of a program to the entry of allow.hooks that a refusal proposes for it.
func (c *hostCheck) pin(refused error, program string) {
	var lacks *policyError
	if !errors.As(refused, &lacks) || !slices.Equal(lacks.missing.Hooks, []string{escape(program)}) {
		return
	}
	if f, err := c.view.Find(program); err == nil && !f.Hidden {
		if digest, err := f.Digest(); err == nil {
			lacks.missing.Hooks = []string{escape(program) + "@sha256:" + digest}
		}
	}
}

// isRoots reports whether a file's owner is root, or the agent's user in tests.
func isRoots(uid uint32) bool { return uid == 0 || int(uid) == os.Geteuid() }

// find follows a path and checks the one that its links lead to.
func (c *hostCheck) find(k *editKind, hostPath string) (*hostfs.File, error) {
	f, err := c.view.Find(hostPath)
	if err != nil {
		return nil, refuse("%s %s %s", k.what, quote(hostPath), err)
	}
	accepted := c.earlier && c.policy.AcceptDeclared && changeable(f) == ""
	return f, c.leads(k, hostPath, "leads to", f.Path, !accepted)
}

// hidden refuses a path that cannot be checked, because this process cannot see what it leads to.
func (c *hostCheck) hidden(k *editKind, hostPath string, f *hostfs.File) error {
	subject := k.what + " " + quote(hostPath)
	if f.Path != hostPath {
		subject += " leads to " + quote(f.Path) + ", which"
	}
	missing := func(format string) error { return &policyError{message: fmt.Sprintf(format, subject), gone: true} }
	switch host := c.policy.Host; {
	case host.Devfs == "":
		return nil
	case c.absent && f.Foreign == "":
		return nil
	case f.Foreign != "":
		return refuse("%s is on %s, a file system that might never answer, so that the agent cannot check it: put what containers need on a file system of the node", subject, f.Foreign)
	case isBelow("/dev", f.Path) || isBelow("/sys", f.Path):
		return missing("%s does not exist on the node")
	case host.Devfs == "/dev":
		return missing("%s does not exist, or the agent's service does not see it, as in /home and /tmp")
	}
	return missing("%s does not exist on the node, or is in none of the directories in hostPaths.edits of the chart: add its directory there")
}

const whyPrivate = "it is a directory of kubelet, of CDI specs or of the agent, or contains one"

// leads checks another path of what a path of the host leads to; how is the verb between them.
// With strict, it must be what the configuration allows or accepts: links can be made by whoever may write there. Otherwise
// root made it.
func (c *hostCheck) leads(k *editKind, hostPath, how, to string, strict bool) error {
	switch p := c.policy; {
	case to == hostPath:
		return nil
	case (k == &mountEdit || k == &readEdit) && c.isPrivate(to):
		return refuse("%s %s %s %s, which is never given to a container: %s", k.what, quote(hostPath), how, quote(to), whyPrivate)
	case to == "/" || p.never(k, to):
		return refuse("%s %s %s %s, which is never given to a container", k.what, quote(hostPath), how, quote(to))
	case !strict, slices.Contains(defaultNodes, to), c.listed(k, hostPath, to):
		return nil
	}
	lacks := "the configuration does not allow: if containers may have that, add to this backend allow:"
	if c.policy.ForAuthor {
		lacks = "the manifest does not have: add to containers of the manifest"
	}
	return refuse("%s %s %s %s, which %s %s", k.what, quote(hostPath), how, quote(to), lacks, c.linked(k, to).YAML())
}

// counted are the numbers in names of device nodes that the kernel counts, as in /dev/snd/pcmC0D0p.
var counted = regexp.MustCompile(`([A-Z])[0-9]+|[0-9]+(/|$)`)

// linked returns the entry that would allow what a link leads to. A device that comes back may have a node of
// another number, so it is a pattern for them.
func (c *hostCheck) linked(k *editKind, to string) shortage {
	s := c.policy.missing(k, to)
	if pattern := counted.ReplaceAllString(to, "$1[0-9]*$2"); slices.Equal(s.Devices, []string{to}) && NeverAllowed(k.use, pattern) == "" {
		s.Devices = []string{pattern}
	}
	return s
}

// listed reports whether the configuration lists or accepts what a path leads to. An entry such as
// /var/run/acme/**, where /var/run is a link that root alone can change, also allows /run/acme/x
// for what is found below it.
func (c *hostCheck) listed(k *editKind, hostPath, to string) bool {
	entries := k.entries(c.policy.Allowed)
	if c.policy.AcceptDeclared {
		entries = slices.Concat(entries, k.entries(c.policy.Declared))
	}
	return k.matchAny(entries, to) || slices.ContainsFunc(entries, func(entry string) bool {
		pattern, f := c.unlinked(entry)
		return k.match(entry, hostPath) && k.match(pattern, to) && changeable(f) == ""
	})
}

// unlinked returns a pattern without links in the directory that it begins with, and that.
func (c *hostCheck) unlinked(pattern string) (string, *hostfs.File) {
	dir := path.Dir(literal(pattern) + "x")
	f, err := c.view.Find(dir)
	if err != nil {
		return pattern, &hostfs.File{}
	}
	return path.Join(f.Path, pattern[len(dir):]), f
}

// changeable returns a directory in which others than root can change what leads to a file; ""
// if there is none.
func changeable(f *hostfs.File) string {
	for _, s := range f.Steps {
		if !isRoots(s.UID) || s.Mode.Perm()&0o022 != 0 {
			return s.Dir
		}
	}
	return ""
}

// number checks a device by its number. Its own name is allowed already, as far as it
// is the kernel's. A node that the host has got its number from root; one that a runtime makes has what the backend reported,
// and so must be allowed by the names that the kernel has for that.
func (c *hostCheck) number(hostPath string, f *hostfs.File) error {
	if !f.IsDevice() {
		return nil
	}
	names, exact, err := f.Devices()
	if err != nil {
		return refuse("device node %s %s", quote(hostPath), err)
	}
	if f.Hidden && len(names) == 0 {
		return refuse("device node %s is not on the node, and no driver there has its number: is the driver loaded?", quote(hostPath))
	}
	own := f.Path[max(strings.LastIndex(f.Path, "/dev/"), 0):]
	for _, name := range names {
		if exact && name == own {
			continue
		}
		if err := c.leads(&nodeEdit, hostPath, "has the number of", name, (exact || f.Hidden) && (!c.earlier || !c.policy.AcceptDeclared)); err != nil {
			return err
		}
	}
	return nil
}

// exchangeable refuses a path in which another than root could put something else between this
// check and the start of a container: in a directory that everybody may write to, or one that
// the backend's own process writes to. The kernel's own trees are not written to in that sense.
func (c *hostCheck) exchangeable(k *editKind, hostPath string, f *hostfs.File) error {
	c.prepare()
	for _, s := range f.Steps {
		entry := strings.TrimSuffix(s.Dir, "/") + "/."
		if i := slices.IndexFunc(c.writes, func(pattern string) bool { return match(pattern, entry) }); i >= 0 {
			return refuse("%s %s is in %s, where the backend's own process may write (%s): it could put something else there for each container; give containers the directory itself, or what is elsewhere",
				k.what, quote(hostPath), s.Dir, c.writes[i])
		}
		if s.Mode.Perm()&0o002 != 0 && (s.Mode&fs.ModeSticky == 0 || !isRoots(s.EntryUID)) {
			return refuse("%s %s is in %s, where everybody may put something else: chmod o-w %[3]s, or with its sticky bit chown root what is in it", k.what, quote(hostPath), s.Dir)
		}
	}
	return nil
}

// isPrivate reports whether a path is in a private directory, or contains one.
func (c *hostCheck) isPrivate(name string) bool {
	c.prepare()
	return slices.ContainsFunc(c.private, func(dir string) bool { return isBelow(dir, name) || isBelow(name, dir) })
}

// isBelow reports whether a path is a directory or below it.
func isBelow(dir, name string) bool {
	return name == dir || strings.HasPrefix(name, strings.TrimSuffix(dir, "/")+"/")
}

// prepare follows the links of the private directories, and of the directories in write paths.
func (c *hostCheck) prepare() {
	if c.ready {
		return
	}
	c.ready = true
	for _, dir := range c.policy.Host.Private {
		c.private = append(c.private, dir)
		if f, err := c.view.Find(dir); err == nil && !f.Hidden {
			places, _ := f.Places() // an error refuses what is checked, too
			c.private = append(append(c.private, f.Path), places[:1]...)
		}
	}
	for _, pattern := range c.policy.Writes {
		if strings.HasPrefix(pattern, "/sys/") || strings.HasPrefix(pattern, "/proc/") {
			continue
		}
		unlinked, _ := c.unlinked(pattern)
		c.writes = append(c.writes, pattern, unlinked)
	}
}
