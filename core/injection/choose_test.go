package injection

import (
	"strings"
	"testing"

	"github.com/accelmux/accelmux/core/config"
)

// Verifies what each kubelet and each container runtime gets, as they are named in
// the field, and that the reason names what it was chosen by.
func TestChoose(t *testing.T) {
	for name, c := range map[string]struct {
		software Software
		want     config.Injection
		reason   string
	}{
		"nothing is known":    {Software{}, config.InjectCDIBoth, "nobody has said"},
		"newest":              {Software{"v1.37.1", "containerd://2.2.0"}, config.InjectCDI, "kubelet v1.37.1"},
		"first with names":    {Software{"v1.29.0", "containerd://1.7.13"}, config.InjectCDI, "kubelet v1.29.0"},
		"gate in 1.28":        {Software{"v1.28.15", "containerd://1.7.13"}, config.InjectCDIAnnotations, "kubelet v1.28.15"},
		"oldest":              {Software{"v1.26.15", "cri-o://1.26.5"}, config.InjectCDIAnnotations, "kubelet v1.26.15"},
		"of a cloud":          {Software{"v1.30.4-eks-a737599", "containerd://1.7.22"}, config.InjectCDI, "v1.30.4-eks-a737599"},
		"of a distribution":   {Software{"v1.28.9+k3s1", "containerd://1.7.11-k3s2"}, config.InjectCDIAnnotations, "v1.28.9+k3s1"},
		"kubernetes 2":        {Software{"v2.0.0", ""}, config.InjectCDI, "v2.0.0"},
		"no release":          {Software{"unknown", "containerd://2.0.0"}, config.InjectCDIBoth, `"unknown" is none`},
		"only the runtime":    {Software{"", "containerd://2.0.0"}, config.InjectCDIBoth, "nobody has said"},
		"containerd 1.6":      {Software{"v1.31.14", "containerd://1.6.36"}, config.InjectPlain, "containerd 1.6.36"},
		"containerd 1.6 only": {Software{"", "containerd://1.6.36"}, config.InjectPlain, "containerd 1.6.36"},
		"containerd 1.10":     {Software{"v1.31.14", "containerd://1.10.0"}, config.InjectCDI, "v1.31.14"},
		"containerd unknown":  {Software{"v1.31.14", "containerd://Unknown"}, config.InjectCDI, "v1.31.14"},
		"old cri-o":           {Software{"v1.26.15", "cri-o://1.22.1"}, config.InjectPlain, "cri-o 1.22.1"},
		"docker":              {Software{"v1.31.14", "docker://27.3.1"}, config.InjectPlain, "docker 27.3.1"},
		"another runtime":     {Software{"v1.31.14", "thing://0.1"}, config.InjectCDI, "v1.31.14"},
		"no number":           {Software{"v1.x", "://"}, config.InjectCDIBoth, `"v1.x" is none`},
		"a number too long":   {Software{"v1.99999999999999999999", ""}, config.InjectCDIBoth, "is none"},
	} {
		t.Run(name, func(t *testing.T) {
			got := Choose(c.software, "nobody has said")
			if got.Injection != c.want || !strings.Contains(got.Reason, c.reason) {
				t.Errorf("%+v: %+v; want %s because of %s", c.software, got, c.want, c.reason)
			}
		})
	}
}
