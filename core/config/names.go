package config

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"strings"
	"unicode"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

const (
	// maxResourceDomain leaves room for "requests." in front of the domain, as a
	// quota on the resource is named: 253 minus 9.
	maxResourceDomain = 244
	maxResourceName   = 63
	maxCommand        = 255
	// maxEnvValue keeps an entry well below the kernel's limit of 128 KiB for
	// one argument string of execve(2).
	maxEnvValue = 32 << 10
)

var (
	classSyntax    = regexp.MustCompile(`^[a-z][a-z0-9-]{0,62}$`)
	checksumSyntax = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)
	commandSyntax  = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._+-]*$`)
	// attributeSyntax is the backend contract's: a C identifier.
	attributeSyntax = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,31}$`)
	envSyntax       = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	pciSyntax       = regexp.MustCompile(`^[0-9a-f]{4}(:[0-9a-f]{4})?$`)
)

// checkProfileName requires a DNS label (RFC 1123).
func checkProfileName(name string) error {
	if len(validation.IsDNS1123Label(name)) > 0 {
		return fmt.Errorf("must be a DNS label, lower-case letters, digits and dashes, at most 63, is %s", show(name))
	}
	return nil
}

// checkPCI checks that id is a PCI vendor, or a vendor and a device.
func checkPCI(id string) error {
	if !pciSyntax.MatchString(id) {
		return fmt.Errorf("must be a PCI vendor such as 10de, or a vendor and a device such as 10de:1eb8, in lower-case hexadecimal digits as lspci -n prints them, is %s%s", show(id), pciOf(id))
	}
	return nil
}

// pciOf returns how to write a PCI vendor, or a vendor and a device, that has capital letters, 0x or no quotes; "" for another
// text.
func pciOf(text string) string {
	id := strings.ReplaceAll(strings.ToLower(text), "0x", "")
	if !pciSyntax.MatchString(id) {
		return ""
	}
	return fmt.Sprintf("; write %q", id)
}

// checkBackendName requires a DNS label that starts with a letter (RFC 1035), as CDI does for
// vendors and classes.
func checkBackendName(name string) error {
	if len(validation.IsDNS1035Label(name)) > 0 {
		hint := ""
		if lower := strings.ToLower(name); len(validation.IsDNS1035Label(lower)) == 0 {
			hint = "; write " + lower
		}
		return fmt.Errorf("must be a DNS label that starts with a letter, of lower-case letters, digits and dashes, at most 63, is %s%s", show(name), hint)
	}
	return nil
}

// checkResourceName requires an extended resource name, as kubelet does of device plugins
// (IsExtendedResourceName in pkg/apis/core/v1/helper of k8s.io/kubernetes). Each of its rules
// has a message of its own; Kubernetes' own function at the end covers the rest.
func checkResourceName(name string) error {
	domain, rest, found := strings.Cut(name, "/")
	switch {
	case !found || domain == "" || rest == "":
		return fmt.Errorf("must be domain/name, such as example.com/gpu, is %s", show(name))
	case strings.Contains(rest, "/"):
		return fmt.Errorf("must have one slash only, is %s", show(name))
	case strings.HasSuffix(domain, strings.TrimSuffix(corev1.ResourceDefaultNamespacePrefix, "/")):
		// Kubernetes searches for "kubernetes.io/" anywhere in the name: subdomains and
		// notkubernetes.io are reserved too, k8s.io is not.
		return fmt.Errorf("the domain %s is reserved: it ends in kubernetes.io", show(domain))
	case strings.HasPrefix(domain, corev1.DefaultResourceRequestsPrefix):
		return errors.New(`must not start with "requests.", which is how a quota names a resource`)
	case len(domain) > maxResourceDomain:
		return fmt.Errorf("the domain is too long: %d characters, at most %d", len(domain), maxResourceDomain)
	case len(rest) > maxResourceName:
		return fmt.Errorf("the part after the slash is too long: %d characters, at most %d", len(rest), maxResourceName)
	case len(validation.IsDNS1123Subdomain(domain)) > 0:
		return fmt.Errorf("the domain %s is not a DNS name of lower-case letters, digits, dashes and dots", show(domain))
	}
	if problems := validation.IsQualifiedName(corev1.DefaultResourceRequestsPrefix + name); len(problems) > 0 {
		return fmt.Errorf("the part after the slash must be letters, digits, dashes, underscores and dots, "+
			"with a letter or digit at both ends, is %s", show(rest))
	}
	return nil
}

// checkClass requires the backend contract's syntax of device classes.
func checkClass(class string) error {
	if !classSyntax.MatchString(class) {
		return fmt.Errorf("must be a lower-case letter, then lower-case letters, digits or dashes, at most 63 in all, is %s", show(class))
	}
	return nil
}

// checkIdentifier requires the backend contract's syntax of names of attributes, capacities and
// parameters.
func checkIdentifier(of, name string) error {
	if !attributeSyntax.MatchString(name) {
		return fmt.Errorf("must be the name of %s, letters, digits and underscores, not starting with a digit, at most 32, is %s", of, show(name))
	}
	return nil
}

// FeatureDomainSuffix follows a backend's name in the default prefix of its features.
const FeatureDomainSuffix = ".accelmux.io"

// maxFeaturePrefix keeps a feature file of 256 features, each a prefix and twice at most 63
// characters, below the 64 KiB that Node Feature Discovery reads.
const maxFeaturePrefix = 100

// checkFeaturePrefix requires a prefix that Node Feature Discovery accepts for labels (Label
// in its pkg/apis/nfd/validate), and refuses the defaults of other
// backends.
func checkFeaturePrefix(prefix, backend string) error {
	within := func(domain string) bool { return prefix == domain || strings.HasSuffix(prefix, "."+domain) }
	switch {
	case len(validation.IsDNS1123Subdomain(prefix)) > 0:
		return fmt.Errorf("must be a DNS name of lower-case letters, digits, dashes and dots, such as example.com, is %s", show(prefix))
	case len(prefix) > maxFeaturePrefix:
		return fmt.Errorf("is too long: %d characters, at most %d", len(prefix), maxFeaturePrefix)
	case within("kubernetes.io") && !within("feature.node.kubernetes.io") && !within("profile.node.kubernetes.io"):
		return fmt.Errorf("%s is refused by Node Feature Discovery: below kubernetes.io it accepts only feature.node.kubernetes.io, profile.node.kubernetes.io and their subdomains", show(prefix))
	case strings.HasSuffix(prefix, FeatureDomainSuffix) && prefix != backend+FeatureDomainSuffix:
		return fmt.Errorf("%s is the default prefix of the backend with that name: omit it, or use a domain of your own", show(prefix))
	}
	return nil
}

// checkAnnotationPrefix requires the domain of an annotation's key, and that annotations are the
// only way to the runtime: with two ways it would add the devices twice.
func checkAnnotationPrefix(r *Resource) error {
	prefix := r.AnnotationPrefix
	switch {
	case len(validation.IsDNS1123Subdomain(prefix)) > 0 || len(prefix) > maxFeaturePrefix:
		return fmt.Errorf("must be a DNS name without a slash, such as nvidia.cdi.k8s.io, at most %d characters, is %s", maxFeaturePrefix, show(prefix))
	case prefix != DefaultAnnotationPrefix && r.Injection != InjectCDIAnnotations:
		return fmt.Errorf("requires injection: %s", InjectCDIAnnotations)
	}
	return nil
}

// checkCommand requires a file name without a path: the agent knows the directory.
func checkCommand(command string) error {
	switch {
	case strings.Contains(command, "/"):
		return fmt.Errorf("must be a file name in the backend directory, not a path, is %s", show(command))
	case len(command) > maxCommand || !commandSyntax.MatchString(command):
		return fmt.Errorf("must be a file name of letters, digits and . _ + -, not starting with a dot or a dash, at most %d characters, is %s",
			maxCommand, show(command))
	}
	return nil
}

// checkChecksum requires a SHA-256 checksum as Backend.Checksum has it, which a program prints for what it is of.
func checkChecksum(of, program, checksum string) error {
	if !checksumSyntax.MatchString(checksum) {
		return fmt.Errorf("must be sha256: and the 64 lower-case hex digits that %s prints %s, is %s", program, of, show(checksum))
	}
	return nil
}

// checkEnv requires a name that every shell and runtime accepts, and that the core does not set
// itself when it starts a backend.
func checkEnv(name, value string) error {
	if err := checkVariable(name); err != nil {
		return err
	}
	switch {
	case name == "ACCELMUX_BACKEND" || strings.HasPrefix(name, "PLUGIN_"):
		return fmt.Errorf("%s is set by the core when it starts a backend", name)
	case strings.ContainsRune(value, 0):
		return errors.New("the value must not contain a NUL byte")
	case len(value) > maxEnvValue:
		return fmt.Errorf("the value is too long: %d bytes, at most %d", len(value), maxEnvValue)
	}
	return nil
}

func checkVariable(name string) error {
	if !envSyntax.MatchString(name) {
		return fmt.Errorf("the name of a variable must be letters, digits and underscores, not starting with a digit, is %s", show(name))
	}
	return nil
}

var envPattern = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]*\*?$`)

// checkEnvPattern checks the name of an environment variable, or a prefix and *.
func checkEnvPattern(pattern string) error {
	if !envPattern.MatchString(pattern) {
		return fmt.Errorf("must be the name of an environment variable, or a prefix and * for all names that begin with it, is %s", show(pattern))
	}
	return nil
}

func checkInterfacePattern(pattern string) error {
	if _, err := path.Match(pattern, ""); err != nil || pattern == "" || strings.ContainsFunc(pattern, func(r rune) bool {
		return r == '/' || r == ':' || unicode.IsSpace(r) || unicode.IsControl(r)
	}) {
		return fmt.Errorf("must be the name of a network interface, such as can0 or can*, is %s", show(pattern))
	}
	return nil
}

// checkHook requires a pattern, with or without @ and a checksum.
func checkHook(entry string) error {
	i := strings.LastIndex(entry, "@sha256:")
	if i < 0 {
		return checkPattern(entry)
	}
	return errors.Join(checkPattern(entry[:i]), checkChecksum("for the program", "sha256sum", entry[i+1:]))
}

// checkPattern requires an absolute, clean path in the syntax of path.Match; "/**" is allowed
// only at the end.
func checkPattern(pattern string) error {
	if !strings.HasPrefix(pattern, "/") {
		return fmt.Errorf("must be an absolute path, is %s", show(pattern))
	}
	if strings.ContainsFunc(pattern, unicode.IsControl) {
		return fmt.Errorf("must not contain control characters, is %s", show(pattern))
	}
	base := strings.TrimSuffix(pattern, "/**")
	if strings.Contains(base, "**") {
		return fmt.Errorf("** may only be the last part, as in /dev/dri/**, is %s", show(pattern))
	}
	if base != "" && path.Clean(base) != base {
		return fmt.Errorf("must be a clean path, without //, /./, /../ or a slash at the end: %s", show(path.Clean(base)))
	}
	if _, err := path.Match(base, "/"); err != nil {
		return fmt.Errorf("is not a pattern of path.Match (is a bracket not closed, or a backslash at the end?): %s", show(pattern))
	}
	return nil
}
