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

// labelName joins the parts of a feature's name; the first must begin with a letter. A name that
// is too long is cut and gets a hash of the whole name, so that it stays unique.
func labelName(prefix string, parts []string) (name string, cut bool) {
	name = strings.TrimRight(strings.Join(parts, "."), edges)
	if len(name) > validation.LabelValueMaxLength {
		sum := sha256.Sum256([]byte(name))
		tail := "-" + hex.EncodeToString(sum[:4])
		name, cut = name[:validation.LabelValueMaxLength-len(tail)]+tail, true
	}
	return prefix + "/" + name, cut
}

// labelValue converts a text to the value of a label: "+" becomes ".", as in the names of MIG
// resources, and every other run of characters that a label cannot have becomes "-". problem
// is a clause about what was lost. label is "" if no character is left.
func labelValue(raw string) (label, problem string) {
	if strings.HasPrefix(raw, "-") && strings.Trim(raw[1:], "0123456789") == "" {
		return "", "is left out: a label cannot be negative"
	}
	label = strings.Trim(config.QualifiedText(raw), edges)
	if label == "" {
		return "", "is left out: it has no character that a label can have"
	}
	if len(label) > validation.LabelValueMaxLength {
		label = strings.TrimRight(label[:validation.LabelValueMaxLength], edges)
		problem = "was cut: a label has at most 63 characters"
	}
	return label, problem
}
