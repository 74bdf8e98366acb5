package inventory

import (
	"slices"
	"strings"
)

// Use is how a process or a container has a path or a name, as a manifest's lists are called.
type Use string

// The uses of which something is given to nobody. Names of a directory's entries may be listed.
const (
	UseRead          Use = "read"
	UseWrite         Use = "write"
	UseOpen          Use = "open"
	UseNode          Use = "devices"
	UseMount         Use = "mounts"
	UseReadOnlyMount Use = "readOnlyMounts"
	UseHook          Use = "hooks"
	UseEnv           Use = "env"
)

// What follows is given to no process and no container, whatever a manifest, its settings and the configuration's
// allow have. Types of files count as well where the node knows them ([Host]).

// neverNodes are of memory, of the kernel and of processor registers, and by numbers those of all devices; below any root:
// the root of a driver or a container has a dev, too.
var neverNodes = []string{
	"/dev/mem", "/dev/kmem", "/dev/port", "/dev/oldmem", "/dev/crash", "/dev/nvram", "/dev/snapshot", "/dev/dax*", "/dev/cxl/**",
	"/dev/kmsg", "/dev/console", "/dev/cpu/**", "/dev/watchdog*", "/dev/char/**", "/dev/block/**",
}

// disks are block devices, their controllers and what else has their content; below any root. Allow gives one by its exact
// path in devices or process.open.
var disks = []string{
	"/dev/sd[a-z]*", "/dev/hd[a-z]*", "/dev/vd[a-z]*", "/dev/xvd*", "/dev/nvme*", "/dev/ng[0-9]*",
	"/dev/sg[0-9]*", "/dev/sr[0-9]*", "/dev/st[0-9]*", "/dev/nst[0-9]*", "/dev/bsg/**",
	"/dev/mmcblk*", "/dev/mtd*", "/dev/ubi*", "/dev/pmem*", "/dev/root",
	"/dev/disk/**", "/dev/mapper/**", "/dev/dm-*", "/dev/md[0-9]*", "/dev/md/**", "/dev/bcache*",
	"/dev/loop*", "/dev/ram[0-9]*", "/dev/zram*", "/dev/zd[0-9]*", "/dev/zvol/**",
	"/dev/nbd*", "/dev/rbd*", "/dev/drbd*", "/dev/btrfs-control", "/dev/zfs", "/dev/raw/**", "/dev/mpt[0-9]*ctl",
	"/dev/megaraid_sas_ioctl*", "/dev/aac*", "/dev/tw[ael]*", "/dev/ipmi*",
}

// neverMounted are the kernel's files of processes and its settings; below any root. Processes only read them.
var neverMounted = []string{"/proc/**"}

// neverReached control the node, also where they are only read: a socket that is mounted read-only takes connections.
var neverReached = []string{
	// The agent's and kubelet's directories. A backend has its own below ownDirectories.
	"/run/accelmux/**", DefaultStateDir + "/**", "/etc/accelmux/**", "/var/lib/kubelet/**", "/etc/kubernetes/**",
	"/etc/rancher/**", "/var/lib/rancher/**", "/var/lib/k0s/**",
	// Container runtimes.
	"/run/containerd/**", "/run/crio/**", "/run/docker.sock", "/run/docker/**", "/run/dockershim.sock", "/run/cri-dockerd.sock", "/run/podman/**", "/run/buildkit/**",
	"/run/k3s/**", "/run/k0s/**", "/run/nri/**", "/var/lib/containerd/**", "/var/lib/containers/**", "/var/lib/docker/**",
	// What else runs programs as root, or as who logs in.
	"/run/systemd/**", "/run/dbus/**", "/run/initctl", "/run/libvirt/**", "/run/user/**", "/run/screen/**", "/run/tmux/**",
	// udevd's sockets, which take commands of root, also of a container's (udev_ctrl_connection_new in udev-ctrl.c and, since
	// systemd 257, udev-varlink.c of systemd).
	"/run/udev/control", "/run/udev/io.systemd.Udev",
	// Credentials.
	"/etc/shadow*", "/etc/gshadow*", "/etc/ssh/ssh_host_*", "/root/**",
}

// neverWritten are files that root runs, or that decide what it runs.
var neverWritten = []string{
	"/etc/udev/**", "/run/udev/**", "/etc/modprobe.d/**", "/run/modprobe.d/**", "/etc/modules*", "/etc/modules-load.d/**", "/run/modules-load.d/**", "/etc/tmpfiles.d/**", "/run/tmpfiles.d/**",
	"/etc/sysusers.d/**", "/run/sysusers.d/**", "/etc/sysctl*", "/etc/sysctl.d/**", "/run/sysctl.d/**", "/etc/binfmt.d/**", "/run/binfmt.d/**", "/etc/systemd/**", "/etc/sudo*", "/etc/sudoers.d/**",
	"/etc/polkit-1/**", "/run/polkit-1/**", "/etc/cron*", "/etc/cron*/**", "/etc/anacrontab", "/etc/init.d/**", "/etc/rc*", "/etc/rc*/**", "/etc/profile", "/etc/profile.d/**", "/etc/environment", "/etc/bash*",
	"/etc/ld.so.*", "/etc/ld.so.conf.d/**", "/etc/passwd*", "/etc/group*", "/etc/nsswitch.conf", "/etc/pam.d/**", "/etc/security/**", "/etc/ssh/**", "/etc/dbus-1/**", "/etc/fstab", "/etc/crypttab",
	"/etc/kernel/**", "/etc/initramfs-tools/**", "/etc/dracut.conf.d/**", "/etc/logrotate.d/**", "/etc/network/**", "/etc/NetworkManager/**", "/run/NetworkManager/**", "/etc/dhcp/**",
	"/etc/cdi/**", "/run/cdi/**", "/var/cdi/**", "/etc/cni/**", "/opt/cni/**", "/opt/nri/**", "/etc/nri/**", "/etc/containerd/**", "/etc/crio/**", "/etc/docker/**", "/etc/containers/**",
	"/usr/bin/**", "/usr/sbin/**", "/usr/local/bin/**", "/usr/local/sbin/**", "/usr/libexec/**", "/usr/lib/systemd/**", "/usr/lib/udev/**", "/usr/lib/modprobe.d/**", "/usr/lib/modules/**", "/usr/lib/tmpfiles.d/**",
	"/bin/**", "/sbin/**", "/lib/systemd/**", "/lib/udev/**", "/lib/modprobe.d/**", "/lib/modules/**", "/boot/**", "/var/spool/cron/**", "/proc/**", "/sys/kernel/uevent_helper", "/sys/fs/cgroup/**",
}

// neverSet are variables that decide which code runs, or where a container finds its API server.
var neverSet = []string{"LD_*", "GLIBC_TUNABLES*", "KUBERNETES_*", "PATH"}

// DefaultStateDir is the agent's state directory unless it is given another, and OwnDirectories is the name of the directory in
// it that has one for each backend. Manifests and settings name the backends' files by these paths.
const (
	DefaultStateDir = "/var/lib/accelmux"
	OwnDirectories  = "backends"

	ownDirectories = DefaultStateDir + "/" + OwnDirectories + "/"
)

// AnyBackend is the owner of a path that the operator names: it may be in the directory of any one backend.
const AnyBackend = "*"

// lists returns what is never given for a use: from the root alone, and below any root.
func (u Use) lists() (rooted [][]string, anywhere [][]string) {
	switch u {
	case UseRead, UseOpen:
		return [][]string{neverReached, neverNodes, disks}, nil
	case UseWrite:
		return [][]string{neverReached, neverWritten, neverNodes, disks}, nil
	case UseNode, UseHook, UseReadOnlyMount:
		return [][]string{neverReached}, [][]string{neverNodes, disks, neverMounted}
	case UseMount:
		return [][]string{neverReached, neverWritten}, [][]string{neverNodes, disks, neverMounted}
	case UseEnv:
		return [][]string{neverSet}, nil
	}
	return nil, nil
}

// isProcess reports whether the process has the path, not a container.
func (u Use) isProcess() bool { return u == UseRead || u == UseWrite || u == UseOpen }

// isMount reports whether who has a path has all that is below it.
func (u Use) isMount() bool { return u == UseMount || u == UseReadOnlyMount }

// Never returns what a pattern also stands for that is given to nobody; "" if there is nothing. owner is the backend whose
// directory a path of the process may be in.
func Never(u Use, pattern, owner string) string {
	return reachesNever(u, pattern, owner, func(string) bool { return true })
}

// NeverAllowed returns what is given to nobody of an entry of the configuration's allow that stands for nothing else, or,
// for the process, which gets all that a pattern stands for, that also stands for it; "" for other entries.
func NeverAllowed(u Use, entry string) string {
	if IsDisk(u, entry) {
		return ""
	}
	entry = unlinkedRun(entry)
	start := literal(entry)
	if u == UseMount { // the list of all mounts
		u = UseReadOnlyMount
	}
	return reachesNever(u, entry, AnyBackend, func(never string) bool {
		inUdev := strings.HasPrefix(start, udev) && strings.HasPrefix(never, udev) // all of udev's directory is hardly meant
		return u.isProcess() || start == entry || len(start) >= len(literal(never)) || inUdev
	})
}

const udev = "/run/udev/"

// Instead returns why what [NeverAllowed] returned is given to nobody, and what to give instead, as the end of a message; ""
// where that is plain.
func Instead(never string) string {
	if strings.HasPrefix(never, udev) {
		return ": udevd takes commands there, and runs its rules as root; for the properties of devices give " + udev + "data"
	}
	return ""
}

// IsDisk reports whether an entry is the exact path of a disk, which only allow gives.
func IsDisk(u Use, entry string) bool {
	return (u == UseNode || u == UseOpen) && literal(entry) == entry && below(disks, entry) && !below(neverNodes, entry)
}

// reachesNever returns the first of what is never given that counts and that a pattern also stands for.
func reachesNever(u Use, pattern, owner string, counts func(never string) bool) string {
	pattern = unlinkedRun(pattern)
	if u.isProcess() && isOwn(pattern, owner) {
		return ""
	}
	if u.isMount() { // with all that is below
		pattern = strings.TrimSuffix(strings.TrimSuffix(pattern, "/**"), "/") + "/**"
	}
	segments := strings.Split(pattern, "/")
	rooted, anywhere := u.lists()
	for _, list := range slices.Concat(rooted, anywhere) {
		for _, never := range list {
			if counts(never) && overlap(segments, strings.Split(never, "/")) {
				return never
			}
		}
	}
	return ""
}

// unlinkedRun returns a path in /run for one in /var/run, which is a link.
func unlinkedRun(name string) string {
	if name == "/var/run" || strings.HasPrefix(name, "/var/run/") {
		return strings.TrimPrefix(name, "/var")
	}
	return name
}

// isOwn reports whether a pattern stands for what is in the directory of its owner alone.
func isOwn(pattern, owner string) bool {
	rest, ok := strings.CutPrefix(pattern, ownDirectories)
	name, _, in := strings.Cut(rest, "/")
	return ok && in && name != "" && literal(name) == name && (owner == AnyBackend || name == owner)
}

// isNever reports whether a path that a container would get, which is no pattern, is given to nobody. exact reports
// whether the configuration lists it by its exact path.
func isNever(u Use, name string, exact bool) bool {
	if exact && IsDisk(u, name) {
		return false
	}
	name = unlinkedRun(name)
	rooted, anywhere := u.lists()
	return slices.ContainsFunc(rooted, func(list []string) bool { return covers(list, name, u.isMount()) }) ||
		slices.ContainsFunc(anywhere, func(list []string) bool { return below(list, name) || u.isMount() && covers(list, name, true) })
}

// below reports whether a path, below any root, is one of the patterns, which are in /dev and /proc, or a directory of which
// all content is.
func below(patterns []string, name string) bool {
	for i := range len(name) {
		if under := name[i:]; (strings.HasPrefix(under, "/dev/") || strings.HasPrefix(under, "/proc")) && covers(patterns, under, false) {
			return true
		}
	}
	return false
}

// covers reports whether a path is one of the patterns, or a directory of which all content is, or, around, a directory
// above one.
func covers(patterns []string, name string, around bool) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		dir, all := strings.CutSuffix(pattern, "/**")
		isAbove := around && len(pattern) > len(name) && pattern[len(name)] == '/' && strings.HasPrefix(pattern, name)
		return match(pattern, name) || all && match(dir, name) || isAbove
	})
}

// literal returns an entry up to its first wildcard.
func literal(entry string) string {
	if i := strings.IndexAny(entry, `*?[\`); i >= 0 {
		return entry[:i]
	}
	return entry
}
