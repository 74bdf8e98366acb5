package features

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/accelmux/accelmux/core/config"
)

// edges may not begin or end a label.
const edges = "-_."

// within reports whether a feature has one of the prefixes.
func within(name string, prefixes []string) bool {
	prefix, _, _ := strings.Cut(name, "/")
	return slices.Contains(prefixes, prefix)
}

// labelName joins the parts of a feature's name, of which the first begins with a
// letter. One that is too long ends in a hash of the whole, so that it stays one
// of a kind.
func labelName(prefix string, parts []string) (name string, cut bool) {
	name = strings.TrimRight(strings.Join(parts, "."), edges)
	if len(name) > validation.LabelValueMaxLength {
		sum := sha256.Sum256([]byte(name))
		tail := "-" + hex.EncodeToString(sum[:4])
		name, cut = name[:validation.LabelValueMaxLength-len(tail)]+tail, true
	}
	return prefix + "/" + name, cut
}

// labelValue makes a text fit for a label: "+" becomes ".", as in the names of MIG
// resources, and every other run of characters that a label may not have "-". A
// problem is a clause about what that cost; without a label nothing is left.
func labelValue(raw string) (label, problem string) {
	if strings.HasPrefix(raw, "-") && strings.Trim(raw[1:], "0123456789") == "" {
		return "", "is left out: a label cannot be negative"
	}
	label = strings.Trim(config.QualifiedText(raw), edges)
	if label == "" {
		return "", "is left out: a label cannot have any of it"
	}
	if len(label) > validation.LabelValueMaxLength {
		label = strings.TrimRight(label[:validation.LabelValueMaxLength], edges)
		problem = "was cut: a label has at most 63 characters"
	}
	return label, problem
}
