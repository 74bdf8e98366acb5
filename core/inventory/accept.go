package inventory

import (
	"slices"
	"strings"
)

// editKind is a sort of container edit that a policy limits by lists.
type editKind struct {
	// what, need and field name it in messages, in the contract's Needs and in the
	// configuration's allow.
	what, need, field string
	// entries returns the list of a scope.
	entries func(EditScope) []string
	// match reports whether an entry stands for a path or name.
	match func(entry, name string) bool
	// acceptable reports whether allow.declared accepts an entry of a backend's needs, and a
	// path or name that it matches.
	acceptable func(entry string) bool
}

// The kinds. A mount that the container cannot write to needs less than another one.
var (
	nodeEdit   = editKind{"device node", "device_nodes", "devices", func(s EditScope) []string { return s.Devices }, matchNode, acceptableNode}
	mountEdit  = editKind{"mount", "mounts", "mounts", func(s EditScope) []string { return s.Mounts }, match, acceptableWritableMount}
	readEdit   = editKind{"mount", "mounts", "mounts", func(s EditScope) []string { return slices.Concat(s.Mounts, s.ReadOnlyMounts) }, match, acceptableMount}
	hookEdit   = editKind{"hook program", "hooks", "hooks", func(s EditScope) []string { return programs(s.Hooks) }, match, acceptableHook}
	variedEdit = editKind{"environment variable", "env", "env", func(s EditScope) []string { return s.Env }, match, acceptableEnv}
	netEdit    = editKind{"network interface", "net_devices", "netDevices", func(s EditScope) []string { return s.NetDevices }, match, acceptableInterface}
)

// accepts reports whether allow.declared accepts a path or name of declared entries.
func (k *editKind) accepts(declared []string, name string) bool {
	return k.acceptable(name) && slices.ContainsFunc(declared, func(entry string) bool { return k.match(entry, name) && k.acceptable(entry) })
}

// matchAny reports whether one of the entries stands for a path or name.
func (k *editKind) matchAny(entries []string, name string) bool {
	return slices.ContainsFunc(entries, func(entry string) bool { return k.match(entry, name) })
}

// matchNode is match for device nodes: a path without wildcards stands for a node, or for all nodes below a
// directory.
func matchNode(entry, name string) bool {
	below, ok := strings.CutPrefix(name, entry)
	return match(entry, name) || ok && strings.HasPrefix(below, "/") && literal(entry) == entry
}

// Acceptable returns what allow.declared accepts of a backend's needs. A backend is not
// trusted: it may declare anything, at any time. Not accepted, and left to the lists in the
// configuration, are
//   - entries so broad that they say nothing, such as /dev/** or *;
//   - device nodes outside a directory called dev, and those of other subsystems that give
//     control of the node, such as /dev/kvm and /dev/vfio;
//   - mounts of the kernel's file systems, of credentials, of other programs' data and of the
//     sockets of container runtimes, and writable mounts outside /run and /tmp;
//   - hook programs outside the directories of installed software, and those whose name does
//     not contain "hook": a hook runs as root on the node, with arguments from the backend;
//   - variables by which shells and language runtimes run other code;
//   - network interfaces that are not of a CAN bus: a container that gets the node's own
//     takes the node off the network;
//   - group IDs: those of disk, kmem and shadow differ between distributions.
//
// What [Policy] always refuses is refused here, too.
func (s EditScope) Acceptable() EditScope {
	accepted, _ := s.split()
	return accepted
}

// Beyond returns the needs that only the lists in the configuration allow: the others, and patterns
// that also match what is not accepted, such as /dev/kv*, of which /dev/kvm is not.
func (s EditScope) Beyond() EditScope {
	_, beyond := s.split()
	return beyond
}

// Without returns the entries that are not in allowed, nor of its patterns.
func (s EditScope) Without(allowed EditScope) EditScope {
	left := func(k *editKind, entries, allowed []string) []string {
		return slices.DeleteFunc(slices.Clone(entries), func(entry string) bool { return slices.Contains(allowed, entry) || k.matchAny(allowed, entry) })
	}
	return EditScope{
		Devices: left(&nodeEdit, s.Devices, allowed.Devices), Mounts: left(&mountEdit, s.Mounts, allowed.Mounts), ReadOnlyMounts: left(&readEdit, s.ReadOnlyMounts, allowed.Mounts),
		Hooks: left(&hookEdit, s.Hooks, programs(allowed.Hooks)), Env: left(&variedEdit, s.Env, allowed.Env), NetDevices: left(&netEdit, s.NetDevices, allowed.NetDevices),
		GIDs: slices.DeleteFunc(slices.Clone(s.GIDs), func(gid uint32) bool { return slices.Contains(allowed.GIDs, gid) }),
	}
}

func (s EditScope) split() (accepted, beyond EditScope) {
	beyond.GIDs = s.GIDs
	part := func(entries []string, accept, leave *[]string, acceptable func(string) bool, reserved []string) {
		for _, entry := range entries {
			ok := acceptable(entry)
			if ok {
				*accept = append(*accept, entry)
			}
			if !ok || reaches(entry, reserved) {
				*leave = append(*leave, entry)
			}
		}
	}
	part(s.Devices, &accepted.Devices, &beyond.Devices, acceptableNode, reservedNodes)
	part(s.Mounts, &accepted.Mounts, &beyond.Mounts, acceptableWritableMount, reservedMounts)
	part(s.ReadOnlyMounts, &accepted.ReadOnlyMounts, &beyond.ReadOnlyMounts, acceptableMount, reservedMounts)
	part(s.Hooks, &accepted.Hooks, &beyond.Hooks, acceptableHook, reservedMounts)
	part(s.Env, &accepted.Env, &beyond.Env, acceptableEnv, reservedEnv)
	part(s.NetDevices, &accepted.NetDevices, &beyond.NetDevices, acceptableInterface, nil)
	return accepted, beyond
}

// reaches reports whether a pattern also matches reserved names, below any root that it names. Of
// the patterns of these two examples are tried: as written, and with 0 for each wildcard.
func reaches(entry string, reserved []string) bool {
	digit := strings.NewReplacer("**", "0", "*", "0", "[0-9]", "0")
	for i := range len(entry) {
		if i > 0 && (entry[i] != '/' || strings.HasPrefix(entry[i:], "/*")) {
			continue
		}
		if slices.ContainsFunc(reserved, func(r string) bool { return match(entry[i:], r) || match(entry[i:], digit.Replace(r)) }) {
			return true
		}
	}
	return false
}

// reservedNodes are device nodes that a backend for accelerators does not need, and that give
// control of the node or of other programs.
var reservedNodes = []string{
	"/dev/kvm", "/dev/vhost-*", "/dev/vsock", "/dev/vfio/**", "/dev/sev*", "/dev/sgx*", // virtual machines
	"/dev/fuse", "/dev/cuse", "/dev/autofs", "/dev/userfaultfd", "/dev/udmabuf", "/dev/mcelog", // the kernel
	"/dev/net/**", "/dev/ppp", "/dev/usbmon*", "/dev/bus/**", "/dev/i2c-*", "/dev/spidev*", "/dev/gpiochip*", "/dev/mei*", "/dev/tpm*", // buses
	"/dev/tty*", "/dev/vcs*", "/dev/pts/**", "/dev/ptmx", "/dev/input/**", "/dev/uinput", "/dev/uhid", "/dev/hidraw*", // terminals and input
	"/dev/shm/**", "/dev/mqueue/**", "/dev/hugepages*", "/dev/rtc*", "/dev/hpet",
}

// reservedMounts are host paths that reach the kernel, credentials, other programs' data, or
// what controls the node. A read-only mount does not protect a socket.
var reservedMounts = []string{
	"/proc/**", "/sys/**", "/dev/**", "/boot/**", "/root/**", "/home/*", "/.*", "/.*/**",
	"/etc/shadow*", "/etc/gshadow*", "/etc/sudoers*", "/etc/sudoers.d/**", "/etc/ssh/**", "/etc/ssl", "/etc/ssl/private/**", "/etc/pki/**", "/etc/krb5*",
	"/etc/kubernetes/**", "/etc/rancher/**", "/etc/containerd/**", "/etc/crio/**", "/etc/docker/**", "/etc/cni/**", "/etc/wireguard/**",
	"/var/lib/**", "/var/log/**", "/var/spool/**",
	"/run/containerd/**", "/run/crio/**", "/run/docker*", "/run/docker/**", "/run/cri-dockerd*", "/run/podman/**", "/run/k3s/**", "/run/libvirt/**",
	"/run/systemd/**", "/run/dbus/**", "/run/initctl", "/run/netns/**", "/run/user/**", "/run/secrets/**", "/run/credentials/**", "/run/spire/**",
	"/run/accelmux/**", "/run/cdi/**", "/etc/cdi/**", "/var/cdi/**",
}

// reservedEnv are variables by which shells and language runtimes find code, files or peers.
// No list has all of them; [Policy] therefore allows only what is declared.
var reservedEnv = []string{
	"ENV", "HOME", "IFS", "CDPATH", "SHELL*", "BASH*", "PS[0-9]", "PROMPT_COMMAND", "EDITOR", "PAGER", "TMPDIR", "XDG_*", "GIT_*",
	"NODE_*", "PYTHON*", "JAVA*", "JDK_*", "_JAVA*", "CLASSPATH", "PERL*", "RUBY*", "GEM_*", "LUA*", "PHP*", "DOTNET_*", "CORECLR_*", "COR_*",
	"GCONV_PATH", "MALLOC_*", "OPENSSL_*", "SSL_*", "*_PROXY", "*_proxy",
}

// literal returns an entry up to its first wildcard.
func literal(entry string) string {
	if i := strings.IndexAny(entry, `*?[\`); i >= 0 {
		return entry[:i]
	}
	return entry
}

// reserved reports whether a path, below any root, is one of the patterns, or a directory of
// which all content is.
func reserved(patterns []string, name string) bool {
	for i := range len(name) {
		if below := name[i:]; name[i] == '/' && (matchAny(patterns, below) || matchAny(patterns, below+"/.")) {
			return true
		}
	}
	return false
}

func acceptableNode(entry string) bool { return narrowNode(entry) && !reserved(reservedNodes, entry) }

// narrowNode reports whether an entry is that of nodes of some kind.
func narrowNode(entry string) bool {
	const dev = "/dev/"
	start := literal(entry)
	_, name, in := strings.Cut(start, dev)
	return in && (start == entry || len(name) > 1) && !denied(entry)
}

func acceptableMount(entry string) bool {
	if slices.Contains(defaultNodes, entry) {
		return true
	}
	entry = strings.Replace(entry, "/var/run", "/run", 1) // a link
	start := literal(entry)
	top, name, _ := strings.Cut(strings.TrimPrefix(start, "/"), "/")
	narrow := name != "" || strings.HasPrefix(top, "lib") && strings.Contains(start[1:], "/")
	return narrow && !denied(entry) && !reserved(reservedMounts, entry)
}

func acceptableWritableMount(entry string) bool {
	return acceptableMount(entry) && (strings.Contains(entry, "/run/") || strings.Contains(entry, "/tmp/"))
}

func acceptableHook(entry string) bool {
	name := entry[strings.LastIndexByte(entry, '/')+1:]
	return strings.Contains(name, "hook") && acceptableMount(entry) && matchAny([]string{"/usr/**", "/opt/**", "/bin/**", "/sbin/**"}, entry)
}

func acceptableEnv(entry string) bool {
	prefix, wildcard := strings.CutSuffix(entry, "*")
	return (!wildcard || len(prefix) > 3 && strings.HasSuffix(prefix, "_")) && !deniedVariable(entry) && !matchAny(reservedEnv, entry)
}

func acceptableInterface(entry string) bool {
	start := literal(entry)
	return slices.ContainsFunc([]string{"can", "vcan", "vxcan", "slcan"}, func(bus string) bool { return strings.HasPrefix(start, bus) })
}
