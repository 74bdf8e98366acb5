package injection

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/accelmux/accelmux/core/config"
)

// Software is what the Node says of its node, "" for what it does not say: kubelet's
// release, such as v1.31.14, and the container runtime's, such as
// containerd://1.7.13.
type Software struct {
	Kubelet, Runtime string
}

// Choice is one of the injections but config.InjectAuto, and why, as a clause.
type Choice struct {
	Injection config.Injection
	Reason    string
}

// The first releases that take CDI names.
const (
	// kubeletMinor is of the first kubelet 1.x that takes them in the answer to
	// Allocate by default; 1.28 has a feature gate for it, which nobody can see from
	// here (https://kep.k8s.io/4009).
	kubeletMinor = 29
	// containerdMinor is of the first containerd 1.x that knows CDI at all, where
	// enable_cdi is set (https://github.com/containerd/containerd/pull/6654).
	containerdMinor = 7
	// crioMinor is of the first CRI-O 1.x that does.
	crioMinor = 23
)

// Choose chooses by what is known. unknown says why kubelet's release is not, as a
// clause.
//
// Not knowing is no obstacle: CDI names can be given in both ways at once. Kubelets
// before 1.29 ignore the field and pass the annotations on, and runtimes take each
// name once (kubelet itself sent every name in both ways from 1.28 to 1.32).
func Choose(s Software, unknown string) Choice {
	if why := withoutCDI(s.Runtime); why != "" {
		return Choice{config.InjectPlain, why}
	}
	major, minor, ok := release(s.Kubelet)
	switch {
	case !ok:
		if s.Kubelet != "" {
			unknown = fmt.Sprintf("%q is none", s.Kubelet)
		}
		return Choice{config.InjectCDIBoth, "kubelet's release is not known, and CDI names in both ways are right for all: " + unknown}
	case major == 1 && minor < kubeletMinor:
		return Choice{config.InjectCDIAnnotations, fmt.Sprintf("kubelet %s passes CDI names on in annotations only", s.Kubelet)}
	}
	return Choice{config.InjectCDI, fmt.Sprintf("kubelet %s takes CDI names", s.Kubelet)}
}

// withoutCDI says why a runtime cannot inject by CDI; "" if it can, or as far as is
// known.
func withoutCDI(runtime string) string {
	name, version, _ := strings.Cut(runtime, "://")
	major, minor, ok := release(version)
	old := func(first int) bool { return ok && (major < 1 || major == 1 && minor < first) }
	switch {
	case name == "containerd" && old(containerdMinor), name == "cri-o" && old(crioMinor):
		return fmt.Sprintf("the container runtime %s %s does not know CDI", name, version)
	case name == "docker":
		return fmt.Sprintf("the container runtime %s %s takes no CDI names from kubelet", name, version)
	}
	return ""
}

var releasePattern = regexp.MustCompile(`^v?([0-9]{1,4})\.([0-9]{1,4})(?:[^0-9]|$)`)

// release is the beginning of a version, whatever a distribution made of its end.
func release(version string) (major, minor int, ok bool) {
	found := releasePattern.FindStringSubmatch(version)
	if found == nil {
		return 0, 0, false
	}
	major, _ = strconv.Atoi(found[1]) // digits, and few
	minor, _ = strconv.Atoi(found[2])
	return major, minor, true
}
