package manifest

import (
	"path"
	"strings"
)

// neverGiven are paths that no manifest gives a process or a container: what controls the node. Names of a directory's
// entries may be listed.
var neverGiven = []string{
	// The agent's and kubelet's. A backend's own directory is below /var/lib/accelmux/backends.
	"/run/accelmux/**", "/var/lib/accelmux/**", "/etc/accelmux/**", "/var/lib/kubelet/**", "/etc/kubernetes/**",
	// Sockets of container runtimes.
	"/run/containerd/**", "/run/crio/**", "/run/docker.sock", "/run/docker/**", "/run/dockershim.sock", "/run/cri-dockerd.sock", "/run/podman/**", "/run/k3s/**",
	// Memory.
	"/dev/mem", "/dev/kmem", "/dev/port", "/dev/oldmem", "/dev/cpu/**", "/dev/dax*", "/dev/crash",
	// Block devices and their controllers, by name; by type where the node knows it.
	"/dev/block/**", "/dev/char/**", "/dev/disk/**", "/dev/mapper/**", "/dev/sd[a-z]*", "/dev/hd[a-z]*", "/dev/vd[a-z]*", "/dev/xvd*", "/dev/nvme*", "/dev/ng[0-9]*", "/dev/sg[0-9]*",
	"/dev/bsg/**", "/dev/mmcblk*", "/dev/pmem*", "/dev/dm-*", "/dev/md[0-9]*", "/dev/md/**", "/dev/loop*", "/dev/ram[0-9]*", "/dev/zram*", "/dev/zd[0-9]*", "/dev/nbd*", "/dev/rbd*", "/dev/drbd*", "/dev/raw/**",
}

// neverWritten are files that root runs, or that say what it runs. No manifest has them written or mounted writable.
var neverWritten = []string{
	"/etc/udev/**", "/run/udev/**", "/etc/modprobe.d/**", "/run/modprobe.d/**", "/etc/modules-load.d/**", "/run/modules-load.d/**", "/etc/tmpfiles.d/**", "/run/tmpfiles.d/**",
	"/etc/sysusers.d/**", "/run/sysusers.d/**", "/etc/sysctl.d/**", "/run/sysctl.d/**", "/etc/binfmt.d/**", "/run/binfmt.d/**", "/etc/systemd/**", "/run/systemd/**", "/etc/sudoers", "/etc/sudoers.d/**",
	"/etc/polkit-1/**", "/run/polkit-1/**", "/etc/cron*", "/etc/cron*/**", "/etc/init.d/**", "/etc/rc*/**", "/etc/profile", "/etc/profile.d/**", "/etc/ld.so.*", "/etc/ld.so.conf.d/**", "/etc/passwd", "/etc/shadow", "/etc/group",
	"/etc/pam.d/**", "/etc/ssh/**", "/etc/dbus-1/**", "/etc/cdi/**", "/run/cdi/**", "/etc/cni/**", "/opt/cni/**", "/etc/containerd/**", "/etc/crio/**",
	"/usr/bin/**", "/usr/sbin/**", "/usr/lib/systemd/**", "/usr/lib/udev/**", "/bin/**", "/sbin/**", "/root/**",
}

// neverMounted are never part of a container: files of other processes.
var neverMounted = []string{"/proc/**"}

// neverSet are variables that decide which code runs, or where a container finds its API server.
var neverSet = []string{"LD_*", "GLIBC_TUNABLES", "KUBERNETES_*", "PATH"}

// ownDirectories are those of the backends below the agent's.
const ownDirectories = "/var/lib/accelmux/backends/"

// reachesNever reports whether a pattern of a list also stands for something that is given to nobody.
func reachesNever(k kind, entry string) bool {
	switch k {
	case variables:
		return entry == "*" || reachesAny(entry, neverSet)
	case listed, words, calls, interfaces:
		return false
	}
	if strings.HasPrefix(entry, "/var/run/") { // a link
		entry = strings.TrimPrefix(entry, "/var")
	}
	if own, ok := strings.CutPrefix(entry, ownDirectories); ok && !strings.ContainsAny(strings.SplitN(own, "/", 2)[0], `*?[\`) && strings.Contains(own, "/") {
		return false
	}
	if k == mounted || k == mountedReadOnly { // with all that is below
		entry = strings.TrimSuffix(strings.TrimSuffix(entry, "/**"), "/") + "/**"
	}
	if reachesAny(entry, neverGiven) {
		return true
	}
	switch k {
	case written:
		return reachesAny(entry, neverWritten)
	case mounted:
		return reachesAny(entry, neverWritten) || reachesAny(entry, neverMounted)
	case nodes, mountedReadOnly, programs:
		return reachesAny(entry, neverMounted)
	}
	return false
}

// saysNothing reports whether a pattern stands for all of the root, or for all nodes.
func saysNothing(k kind, entry string) bool {
	i := strings.IndexAny(entry, `*?[`)
	return i >= 0 && (path.Dir(entry[:i]+"x") == "/" && i == 1 || k != listed && entry[:i] == "/dev/")
}

func reachesAny(entry string, patterns []string) bool {
	for _, never := range patterns {
		if overlap(strings.Split(entry, "/"), strings.Split(never, "/")) {
			return true
		}
	}
	return false
}

// overlap reports whether a path may match both patterns. "**" at the end stands for everything below, and the
// directory itself.
func overlap(a, b []string) bool {
	for len(a) > 0 && len(b) > 0 {
		if len(a) == 1 && a[0] == "**" || len(b) == 1 && b[0] == "**" {
			return true
		}
		if !segmentsOverlap(tokens(a[0]), tokens(b[0])) {
			return false
		}
		a, b = a[1:], b[1:]
	}
	return len(a) == len(b) || len(a) == 1 && a[0] == "**" || len(b) == 1 && b[0] == "**"
}

// tokens splits a pattern of one path element: "*", "?", classes, and characters as classes of one.
func tokens(s string) (all []string) {
	for s != "" {
		n := 1
		switch {
		case s[0] == '\\' && len(s) > 1:
			n = 2
		case s[0] == '[':
			if end := strings.IndexByte(s, ']'); end > 0 {
				n = end + 1
			}
		}
		all = append(all, s[:n])
		s = s[n:]
	}
	return all
}

// segmentsOverlap fills a table of which beginnings of the patterns can match the same text.
func segmentsOverlap(a, b []string) bool {
	row := make([]bool, len(b)+1)
	for i := range len(a) + 1 {
		next := make([]bool, len(b)+1)
		for j := range len(b) + 1 {
			switch {
			case i == 0 && j == 0:
				next[j] = true
			case i > 0 && a[i-1] == "*" && row[j], j > 0 && b[j-1] == "*" && next[j-1]:
				next[j] = true
			case i > 0 && j > 0 && a[i-1] == "*":
				next[j] = next[j-1]
			case i > 0 && j > 0 && b[j-1] == "*":
				next[j] = row[j]
			case i > 0 && j > 0:
				next[j] = row[j-1] && meet(a[i-1], b[j-1])
			}
		}
		row = next
	}
	return row[len(b)]
}

// meet reports whether two tokens that are no "*" may match the same character.
func meet(a, b string) bool {
	plain := func(t string) (string, bool) {
		return strings.TrimPrefix(t, `\`), t != "?" && t[0] != '['
	}
	x, isX := plain(a)
	y, isY := plain(b)
	switch {
	case isX && isY:
		return x == y
	case isX:
		ok, err := path.Match(b, x)
		return ok || err != nil
	case isY:
		ok, err := path.Match(a, y)
		return ok || err != nil
	}
	return true
}
