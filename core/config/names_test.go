package config

import (
	"strings"
	"testing"
)

// TestResourceNames verifies the rules for names against what kubelet accepts,
// and that each refusal says which rule it was.
func TestResourceNames(t *testing.T) {
	label := strings.Repeat("a", 60)
	domain244 := label + "." + label + "." + label + "." + label + "." // 4 * 61
	domain244 = domain244[:243] + "a"
	tests := map[string]struct{ name, wantErr string }{
		"plain":              {name: "example.com/gpu"},
		"k8s.io is allowed":  {name: "k8s.io/gpu"},
		"domain longest":     {name: domain244 + "/gpu"},
		"name longest":       {name: "ex.com/" + strings.Repeat("x", 63)},
		"requests elsewhere": {name: "my.requests.com/gpu"},
		"no domain":          {name: "gpu", wantErr: `must be domain/name, such as example.com/gpu, is "gpu"`},
		"empty domain":       {name: "/gpu", wantErr: `must be domain/name, such as example.com/gpu, is "/gpu"`},
		"two slashes":        {name: "ex.com/a/b", wantErr: `must have one slash only, is "ex.com/a/b"`},
		"kubernetes.io":      {name: "kubernetes.io/gpu", wantErr: `the domain "kubernetes.io" is reserved: it ends in kubernetes.io`},
		"below it":           {name: "x.kubernetes.io/gpu", wantErr: `the domain "x.kubernetes.io" is reserved: it ends in kubernetes.io`},
		"looks like it":      {name: "notkubernetes.io/gpu", wantErr: `the domain "notkubernetes.io" is reserved: it ends in kubernetes.io`},
		"a quota":            {name: "requests.ex.com/gpu", wantErr: `must not start with "requests.", which is how a quota names a resource`},
		"domain too long":    {name: "a" + domain244 + "/gpu", wantErr: `the domain is too long: 245 characters, at most 244`},
		"name too long":      {name: "ex.com/" + strings.Repeat("x", 64), wantErr: `the part after the slash is too long: 64 characters, at most 63`},
		"upper-case domain":  {name: "Ex.com/gpu", wantErr: `the domain "Ex.com" is not a DNS name of lower-case letters, digits, dashes and dots`},
		"dash at the end":    {name: "ex.com/gpu-", wantErr: `the part after the slash must be letters, digits, dashes, underscores and dots, with a letter or digit at both ends, is "gpu-"`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got := ""
			if err := checkResourceName(tc.name); err != nil {
				got = err.Error()
			}
			if got != tc.wantErr {
				t.Errorf("%s: got %q, want %q", tc.name, got, tc.wantErr)
			}
		})
	}
}
