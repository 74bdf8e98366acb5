package inventory

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// ociHooks are the hooks of the OCI runtime specification that CDI can name.
var ociHooks = []string{"createRuntime", "createContainer", hookInContainer, "poststart", "poststop"}

// hookInContainer runs a program of the container.
const hookInContainer = "startContainer"

// mountOptions are the allowed options: those that remove rights or select how a mount is made.
// "ro" and "rw" are missing because Mount.Writable decides it, "shared" because the container's
// mounts would appear on the host.
var mountOptions = []string{
	"bind", "rbind", "nosuid", "nodev", "noexec", "noatime", "nodiratime", "relatime", "sync",
	"private", "rprivate", "slave", "rslave", "unbindable",
}

// interfaceName is a name of a network interface in printable ASCII.
var interfaceName = regexp.MustCompile(`^[!-.0-9;-~]{1,15}$`)

// ParseEdits checks container edits against the contract's limits and the
// policy. The error has what is wrong and how to correct it. The remark is a message about
// optional edits that the policy refuses and that are left out, or "". A nil wire gives empty
// edits.
func ParseEdits(policy Policy, wire *backendv1.ContainerEdits) (e Edits, remark string, err error) {
	p := &editsParser{policy: policy, host: newHostCheck(policy)}
	if e, err = p.parse(wire); err != nil {
		return e, "", err
	}
	switch {
	case p.optional.Empty():
	case policy.ForAuthor:
		p.omitted = append(p.omitted, p.optional.forAuthor())
	default:
		p.omitted = append(p.omitted, p.optional.advice())
	}
	return e, p.remark(), nil
}

// editsParser checks the edits of one device.
type editsParser struct {
	policy Policy
	host   *hostCheck
	// owners are the groups of the device nodes.
	owners []uint32
	// required and optional are the entries of the configuration's lists that edits lack.
	required, optional shortage
	// omitted are other reasons why optional edits are left out.
	omitted []string
	// nodesMissing is set if a device node is not on the host, or not visible.
	nodesMissing bool
}

// allowed reports whether an edit that was checked stays, and returns errors that end the
// check: what the configuration's lists lack is gathered, so that one message has all of it.
func (p *editsParser) allowed(checked error, optional bool) (bool, error) {
	var refused *policyError
	switch {
	case !errors.As(checked, &refused):
		return checked == nil, checked
	case refused.missing.Empty() && optional:
		p.omitted = append(p.omitted, refused.message)
	case refused.missing.Empty():
		return false, checked
	case optional:
		p.optional = p.optional.join(refused.missing)
	default:
		p.required = p.required.join(refused.missing)
	}
	return false, nil
}

// maxOmitted bounds the reasons in a remark.
const maxOmitted = 3

func (p *editsParser) remark() string {
	if len(p.omitted) == 0 {
		return ""
	}
	text := "optional edits are left out of containers: " + strings.Join(p.omitted[:min(len(p.omitted), maxOmitted)], "; ")
	if more := len(p.omitted) - maxOmitted; more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	return text
}

func checkCounts(wire *backendv1.ContainerEdits) error {
	for _, c := range []struct {
		what  string
		n, of int
	}{
		{"environment variables", len(wire.Env), maxEnv},
		{"device nodes", len(wire.DeviceNodes), maxNodes},
		{"mounts", len(wire.Mounts), maxMounts},
		{"hooks", len(wire.Hooks), maxHooks},
		{"additional group IDs", len(wire.AdditionalGids), maxGIDs},
		{"network interfaces", len(wire.NetDevices), maxNetDevices},
	} {
		if c.n > c.of {
			return fmt.Errorf("edits have %d %s; at most %d are allowed", c.n, c.what, c.of)
		}
	}
	return nil
}

// parse returns what the policy allows. An error for lack of entries in the configuration's
// lists is a [policyError] that has all of them.
func (p *editsParser) parse(wire *backendv1.ContainerEdits) (e Edits, err error) {
	if wire == nil {
		return Edits{}, nil
	}
	if err := checkCounts(wire); err != nil {
		return Edits{}, err
	}
	if e.Env, err = p.env(wire.Env); err != nil {
		return Edits{}, err
	}
	if e.EnvSeparators, err = parseSeparators(wire.EnvSeparators, e.Env); err != nil {
		return Edits{}, err
	}
	if e.DeviceNodes, err = p.nodes(wire.DeviceNodes); err != nil {
		return Edits{}, err
	}
	if e.Mounts, err = p.mounts(wire.Mounts); err != nil {
		return Edits{}, err
	}
	if e.Hooks, err = p.hooks(wire.Hooks); err != nil {
		return Edits{}, err
	}
	if e.NetDevices, err = p.netDevices(wire.NetDevices); err != nil {
		return Edits{}, err
	}
	e.Hooks = append(e.Hooks, p.policy.Host.netHooks(e.NetDevices)...)
	if slices.Contains(wire.AdditionalGids, 0) {
		return Edits{}, fmt.Errorf("additional group ID 0 is root's; name the group that owns the device node")
	}
	var missing []uint32
	if e.AdditionalGIDs, missing = p.policy.gids(wire.AdditionalGids, p.owners); len(missing) > 0 && !p.nodesMissing { // the owner of a missing node is unknown
		undeclared := slices.ContainsFunc(missing, func(gid uint32) bool { return !slices.Contains(p.policy.Declared.GIDs, gid) })
		p.optional = p.optional.join(shortage{EditScope{GIDs: missing}, undeclared})
	}
	if !p.required.Empty() {
		return Edits{}, p.policy.notAllowed(p.required.join(p.optional))
	}
	return e, nil
}

func (p *editsParser) env(wire map[string]string) (ByName[string], error) {
	env := Named(wire)
	for name, value := range env.All() {
		if _, err := p.allowed(p.policy.checkEnv(name), false); err != nil {
			return nil, err
		}
		if err := checkText(value, maxEnvValue); err != nil {
			return nil, fmt.Errorf("the value of environment variable %s %w", name, err)
		}
	}
	return env, nil
}

// parseSeparators checks the separators of variables, which must exist.
func parseSeparators(wire map[string]string, env ByName[string]) (ByName[string], error) {
	separators := Named(wire)
	for name, separator := range separators.All() {
		if _, ok := env.Get(name); !ok {
			return nil, fmt.Errorf("env_separators names the variable %s, which env does not have; give it a value there", quote(name))
		}
		if separator == "" {
			return nil, fmt.Errorf("the separator of environment variable %s is empty; write one such as ',', or leave it out of env_separators", name)
		}
		if err := checkText(separator, maxSeparator); err != nil {
			return nil, fmt.Errorf("the separator of environment variable %s %w", name, err)
		}
	}
	return separators, nil
}

// checkPath checks that a path is absolute, clean and on one line.
func checkPath(what, name string) error {
	if name == "" {
		return fmt.Errorf("%s is empty; give an absolute path", what)
	}
	if err := checkText(name, maxPath); err != nil {
		return fmt.Errorf("%s %w", what, err)
	}
	switch {
	case name[0] != '/':
		return fmt.Errorf("%s %s is not absolute; start it with '/'", what, quote(name))
	case path.Clean(name) != name:
		return fmt.Errorf("%s %s is not clean; write %s", what, quote(name), quote(path.Clean(name)))
	}
	return nil
}

func (p *editsParser) nodes(wire []*backendv1.DeviceNode) ([]DeviceNode, error) {
	if len(wire) == 0 {
		return nil, nil
	}
	nodes := make([]DeviceNode, 0, len(wire))
	seen := make(map[string]bool, len(wire))
	for _, w := range wire {
		n := DeviceNode{Path: w.GetPath(), HostPath: w.GetHostPath(), Permissions: w.GetPermissions(), Type: w.GetType(), Major: w.GetMajor(), Minor: w.GetMinor()}
		if err := checkPath("path of a device node in the container", n.Path); err != nil {
			return nil, err
		}
		if n.HostPath == "" {
			n.HostPath = n.Path
		}
		if err := checkPath("host path of a device node", n.HostPath); err != nil {
			return nil, err
		}
		if err := n.checkNumber(); err != nil {
			return nil, fmt.Errorf("device node %s %w", quote(n.HostPath), err)
		}
		if named, err := p.allowed(p.policy.checkDevice(n.HostPath), false); err != nil {
			return nil, err
		} else if named {
			f, err := p.host.node(n)
			if err != nil {
				return nil, err
			}
			if f.IsBlock() {
				n.Type = "b"
			}
			if !f.Hidden {
				p.owners = append(p.owners, f.GID)
			} else if p.policy.Host.Devfs != "" {
				p.nodesMissing = true
			}
		}
		if seen[n.Path] {
			return nil, fmt.Errorf("two device nodes have the path %s in the container; give each its own", quote(n.Path))
		}
		seen[n.Path] = true
		var err error
		if n.Permissions, err = parsePermissions(n.Permissions); err != nil {
			return nil, fmt.Errorf("device node %s %w", quote(n.HostPath), err)
		}
		nodes = append(nodes, n)
	}
	return nodes, nil
}

// What Linux can have as numbers of a device: MINORBITS in include/linux/kdev_t.h, and CHRDEV_MAJOR_MAX, which is less than
// the 12 bits of a major number, is for dynamic ones.
const maxMajor, maxMinor = 1<<12 - 1, 1<<20 - 1

// checkNumber checks type and numbers, which belong together.
func (n *DeviceNode) checkNumber() error {
	switch {
	case n.Type == "" && n.Major == 0 && n.Minor == 0:
		return nil
	case n.Type != "c" && n.Type != "b":
		return fmt.Errorf("has the type %s; it is c or b if there are numbers, and empty for that of the host's node", quote(n.Type))
	case n.Major == 0 || n.Major > maxMajor || n.Minor > maxMinor:
		return fmt.Errorf("has the number %d:%d; major is 1 to %d, and minor at most %d", n.Major, n.Minor, maxMajor, maxMinor)
	}
	return nil
}

// parsePermissions returns the subset of "rwm" in that order.
func parsePermissions(wire string) (string, error) {
	if wire == "" {
		return "rw", nil
	}
	var out strings.Builder
	for _, c := range "rwm" {
		switch strings.Count(wire, string(c)) {
		case 0:
		case 1:
			out.WriteRune(c)
		default:
			return "", fmt.Errorf("has the permissions %s; name each of r, w and m once", quote(wire))
		}
	}
	if out.Len() != len(wire) {
		return "", fmt.Errorf("has the permissions %s; only r, w and m exist", quote(wire))
	}
	return out.String(), nil
}

func (p *editsParser) mounts(wire []*backendv1.Mount) ([]Mount, error) {
	if len(wire) == 0 {
		return nil, nil
	}
	mounts := make([]Mount, 0, len(wire))
	seen := make(map[string]bool, len(wire))
	for _, w := range wire {
		m := Mount{HostPath: w.GetHostPath(), ContainerPath: w.GetContainerPath(), Writable: w.GetWritable()}
		if err := checkPath("host path of a mount", m.HostPath); err != nil {
			return nil, err
		}
		if err := checkPath("path of a mount in the container", m.ContainerPath); err != nil {
			return nil, err
		}
		if m.ContainerPath == "/" {
			return nil, fmt.Errorf("a mount over the container's root would hide its image; mount below it")
		}
		checked := p.policy.checkMount(m.HostPath, m.Writable)
		if checked == nil {
			_, checked = p.host.mount(m.HostPath, m.Writable)
		}
		if stays, err := p.allowed(checked, w.GetOptional()); err != nil {
			return nil, err
		} else if !stays {
			continue
		}
		if seen[m.ContainerPath] {
			return nil, fmt.Errorf("two mounts have the path %s in the container; give each its own", quote(m.ContainerPath))
		}
		seen[m.ContainerPath] = true
		if len(w.GetOptions()) > maxOptions {
			return nil, fmt.Errorf("mount %s has %d options; at most %d are allowed", quote(m.HostPath), len(w.GetOptions()), maxOptions)
		}
		for _, o := range w.GetOptions() {
			if !slices.Contains(mountOptions, o) {
				return nil, fmt.Errorf("mount %s has the option %s; allowed are %s (and the field writable for rw)",
					quote(m.HostPath), quote(o), strings.Join(mountOptions, ", "))
			}
		}
		m.Options = append(m.Options, w.GetOptions()...)
		mounts = append(mounts, m)
	}
	return mounts, nil
}

func (p *editsParser) hooks(wire []*backendv1.OciHook) ([]OCIHook, error) {
	if len(wire) == 0 {
		return nil, nil
	}
	hooks := make([]OCIHook, 0, len(wire))
	for _, w := range wire {
		h := OCIHook{Name: w.GetHookName(), Path: w.GetPath()}
		if !slices.Contains(ociHooks, h.Name) {
			return nil, fmt.Errorf("hook name %s is unknown; it is one of %s", quote(h.Name), strings.Join(ociHooks, ", "))
		}
		if err := checkPath("path of a hook program", h.Path); err != nil {
			return nil, err
		}
		checked := p.policy.checkHook(h.Path)
		if checked == nil {
			checked = p.host.hook(h)
		} else if h.Name != hookInContainer {
			p.host.pin(checked, h.Path)
		}
		if _, err := p.allowed(checked, false); err != nil {
			return nil, err
		}
		if len(w.GetArgs()) > maxHookArgs || len(w.GetEnv()) > maxHookArgs {
			return nil, fmt.Errorf("hook %s has %d arguments and %d variables; at most %d of each are allowed",
				quote(h.Path), len(w.GetArgs()), len(w.GetEnv()), maxHookArgs)
		}
		for _, arg := range w.GetArgs() {
			if err := checkText(arg, maxHookArg); err != nil {
				return nil, fmt.Errorf("an argument of hook %s %w", quote(h.Path), err)
			}
		}
		for _, entry := range w.GetEnv() {
			if err := p.checkHookEnv(entry); err != nil {
				return nil, fmt.Errorf("hook %s: %w", quote(h.Path), err)
			}
		}
		h.Args = append(h.Args, w.GetArgs()...)
		h.Env = append(h.Env, w.GetEnv()...)
		hooks = append(hooks, h)
	}
	return hooks, nil
}

// checkHookEnv checks a variable of a hook, which runs as root on the host.
func (p *editsParser) checkHookEnv(entry string) error {
	name, value, ok := strings.Cut(entry, "=")
	if !ok {
		return fmt.Errorf("variable %s has no '='; write NAME=value", quote(entry))
	}
	if _, err := p.allowed(p.policy.checkEnv(name), false); err != nil {
		return err
	}
	if err := checkText(value, maxEnvValue); err != nil {
		return fmt.Errorf("the value of variable %s %w", name, err)
	}
	return nil
}
