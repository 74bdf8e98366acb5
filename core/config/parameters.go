package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/validation"
)

// maxParameters is the backend contract's limit.
const maxParameters = 32

// CheckParameterValue returns an error for a value that the backend contract does not allow.
// An empty value is allowed: it means none.
func CheckParameterValue(value string) error {
	switch {
	case len(value) > MaxParameterValue:
		return fmt.Errorf("the value is too long: %d bytes, at most %d", len(value), MaxParameterValue)
	case !utf8.ValidString(value) || strings.ContainsFunc(value, unicode.IsControl):
		return fmt.Errorf("the value must be UTF-8 without control characters, is %s", show(value))
	}
	return nil
}

// parameters checks the sources of the values. Two parameters must not share a source; the
// annotation of one must not be the annotation of another for a container.
func (v *validator) parameters(path string, all map[string]Parameter) {
	if len(all) > maxParameters {
		v.report(path, "at most %d parameters are possible, these are %d", maxParameters, len(all))
	}
	annotations, variables := map[string]string{}, map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		p, at := all[name], FieldPath(path, name)
		v.check(at, checkIdentifier("a parameter", name))
		if p == (Parameter{}) && !v.broken[at] {
			v.report(at, "needs at least one of value, annotation, env")
		}
		v.check(at+".value", CheckParameterValue(p.Value))
		if p.Annotation != "" {
			v.check(at+".annotation", checkAnnotationKey(p.Annotation))
			v.source(at+".annotation", name, p.Annotation, annotations)
		}
		if p.Env != "" {
			v.check(at+".env", checkVariable(p.Env))
			v.source(at+".env", name, p.Env, variables)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		for base, name := range annotations {
			if container, ok := strings.CutPrefix(key, base+"."); ok {
				v.report(FieldPath(path, annotations[key])+".annotation",
					"%s is the annotation of the parameter %s for a container named %s", show(key), name, show(container))
			}
		}
	}
}

// source records a parameter's source, and reports an error if another parameter has it.
func (v *validator) source(path, name, key string, taken map[string]string) {
	if other, dup := taken[key]; dup {
		v.report(path, "%s is already used by the parameter %s", show(key), other)
		return
	}
	taken[key] = name
}

func checkAnnotationKey(key string) error {
	if len(validation.IsQualifiedName(strings.ToLower(key))) > 0 {
		return fmt.Errorf("%s is not the key of an annotation, such as example.com/program: %s", show(key), qualified)
	}
	return nil
}
