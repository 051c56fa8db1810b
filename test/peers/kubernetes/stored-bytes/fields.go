package main

import (
	"bufio"
	"fmt"
	"io"
	"reflect"
	"sort"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	eventsv1 "k8s.io/api/events/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// groups are the API groups of the described kinds.
var groups = []func(*runtime.Scheme) error{
	authorizationv1.AddToScheme,
	coordinationv1.AddToScheme,
	corev1.AddToScheme,
	discoveryv1.AddToScheme,
	eventsv1.AddToScheme,
	networkingv1.AddToScheme,
}

// described are the kinds that clients send to an embedded API server.
var described = []runtime.Object{
	&corev1.ConfigMap{}, &corev1.Endpoints{}, &corev1.Event{}, &corev1.Namespace{}, &corev1.Node{}, &corev1.Pod{},
	&corev1.Secret{}, &corev1.Service{}, &corev1.ServiceAccount{},
	&authorizationv1.SelfSubjectAccessReview{}, &coordinationv1.Lease{}, &discoveryv1.EndpointSlice{},
	&eventsv1.Event{}, &networkingv1.IPAddress{}, &networkingv1.ServiceCIDR{},
}

// special are the types with their own JSON encoding.
var special = map[reflect.Type]string{
	reflect.TypeFor[metav1.Time]():          "time",
	reflect.TypeFor[metav1.MicroTime]():     "microTime",
	reflect.TypeFor[metav1.FieldsV1]():      "json",
	reflect.TypeFor[runtime.RawExtension](): "json",
	reflect.TypeFor[resource.Quantity]():    "quantity",
	reflect.TypeFor[intstr.IntOrString]():   "intOrString",
	reflect.TypeFor[[]byte]():               "bytes",
}

// writeFields writes src/protobuf/go-fields.ts, which maps the protobuf fields of each message to JSON.
func writeFields(out io.Writer) error {
	scheme := newScheme()
	messages := map[reflect.Type]string{}
	kinds := []string{}
	for _, object := range described {
		versions, _, err := scheme.ObjectKinds(object)
		if err != nil {
			return err
		}
		message := reflect.TypeOf(object).Elem()
		if err := describe(message, messages); err != nil {
			return err
		}
		kinds = append(kinds, fmt.Sprintf("  '%s': '%s',", keyOf(versions[0]), nameOf(message)))
	}
	// The fields that all resources have.
	for _, common := range []reflect.Type{
		reflect.TypeFor[metav1.DeleteOptions](), reflect.TypeFor[metav1.ListMeta](), reflect.TypeFor[metav1.Status](),
	} {
		if err := describe(common, messages); err != nil {
			return err
		}
	}
	lines := []string{}
	for message, fields := range messages {
		lines = append(lines, fmt.Sprintf("  '%s': '%s',", nameOf(message), fields))
	}
	sort.Strings(kinds)
	sort.Strings(lines)
	buffer := bufio.NewWriter(out)
	fmt.Fprintln(buffer, "// Written by `stored-bytes fields` from the Go types of k8s.io/api: see test/peers/kubernetes. Not edited by hand.")
	fmt.Fprintln(buffer)
	fmt.Fprintln(buffer, "/** The message of each kind, by its apiVersion and kind. */")
	fmt.Fprintf(buffer, "export const kindMessages: Readonly<Record<string, string>> = {\n%s\n}\n\n", strings.Join(kinds, "\n"))
	fmt.Fprintln(buffer, "/** The fields of each message: see ./go-json.ts. */")
	fmt.Fprintf(buffer, "export const messageFields: Readonly<Record<string, string>> = {\n%s\n}\n", strings.Join(lines, "\n"))
	return buffer.Flush()
}

func keyOf(kind schema.GroupVersionKind) string {
	apiVersion, name := kind.ToAPIVersionAndKind()
	return apiVersion + " " + name
}

func describe(message reflect.Type, messages map[reflect.Type]string) error {
	if _, known := messages[message]; known {
		return nil
	}
	messages[message] = ""
	fields := []string{}
	for index := range message.NumField() {
		field := message.Field(index)
		tag := field.Tag.Get("protobuf")
		if tag == "" || tag == "-" {
			// The envelope states the kind.
			if field.Type == reflect.TypeFor[metav1.TypeMeta]() {
				continue
			}
			return fmt.Errorf("%s.%s has no protobuf", message, field.Name)
		}
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		described, isPointer, err := typeOf(field.Type, messages)
		if err != nil {
			return fmt.Errorf("%s.%s: %w", message, field.Name, err)
		}
		// In protobuf, Go writes each field that is not a pointer, even if it is empty. A struct is never empty.
		canBeEmpty := !isPointer && field.Type.Kind() != reflect.Struct
		if strings.Contains(options, "omitzero") || strings.Contains(options, "omitempty") && canBeEmpty {
			described += "?"
		}
		fields = append(fields, strings.Split(tag, ",")[1]+" "+name+" "+described)
	}
	messages[message] = strings.Join(fields, ", ")
	return nil
}

func typeOf(field reflect.Type, messages map[reflect.Type]string) (described string, isPointer bool, err error) {
	if name, ok := special[field]; ok {
		return name, false, nil
	}
	switch field.Kind() {
	case reflect.Pointer:
		described, _, err = typeOf(field.Elem(), messages)
		return described, true, err
	case reflect.Slice:
		described, _, err = typeOf(field.Elem(), messages)
		return "[]" + described, false, err
	case reflect.Map:
		described, _, err = typeOf(field.Elem(), messages)
		return "{}" + described, false, err
	case reflect.Struct:
		return nameOf(field), false, describe(field, messages)
	case reflect.String:
		return "string", false, nil
	case reflect.Bool:
		return "bool", false, nil
	case reflect.Int32, reflect.Int64:
		return "int", false, nil
	default:
		return "", false, fmt.Errorf("%s is not known here", field)
	}
}

func nameOf(message reflect.Type) string {
	parts := strings.Split(message.PkgPath(), "/")
	return strings.Join(parts[len(parts)-2:], "/") + "." + message.Name()
}
