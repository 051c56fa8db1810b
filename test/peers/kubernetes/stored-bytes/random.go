package main

import (
	"encoding/json"
	"fmt"
	"math/rand"
	"reflect"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/randfill"
)

// randomObjects fills each field of an object at random, with text from all of Unicode and numbers of all sizes.
type randomObjects struct {
	filler *randfill.Filler
}

func newRandomObjects(seed int64) randomObjects {
	return randomObjects{
		filler: randfill.NewWithSeed(seed).NilChance(0.4).NumElements(0, 4).Funcs(
			// The envelope states the kind.
			func(*metav1.TypeMeta, randfill.Continue) {},
			func(t *metav1.Time, c randfill.Continue) {
				if c.Bool() {
					t.Time = time.Unix(c.Int63n(253402300799+62135596800)-62135596800, 0)
				}
			},
			func(fields *metav1.FieldsV1, c randfill.Continue) {
				fields.Raw, _ = json.Marshal(map[string]struct{}{"f:" + c.String(0): {}})
			},
			func(t *metav1.MicroTime, c randfill.Continue) {
				if c.Bool() {
					t.Time = time.UnixMicro(c.Int63n(4102444800_000000))
				}
			},
			func(q *resource.Quantity, c randfill.Continue) {
				*q = resource.MustParse(fmt.Sprintf("%d%s", c.Int63n(1000), []string{"", "m", "Mi", "G"}[c.Intn(4)]))
			},
			func(either *intstr.IntOrString, c randfill.Continue) {
				*either = intstr.FromInt32(c.Int31())
				if c.Bool() {
					*either = intstr.FromString(c.String(0))
				}
			},
			func(extension *runtime.RawExtension, c randfill.Continue) {
				extension.Raw = []byte(`{"a":[1,"x"]}`)
			},
			func(entries *map[string]string, c randfill.Continue) {
				*entries = randomEntries(c.Rand, func() string { return c.String(0) })
			},
		),
	}
}

// next makes a random object of a kind. The names of kinds are those in kindMessages of src/protobuf/go-fields.ts.
func (r randomObjects) next(kind string) (runtime.Object, error) {
	scheme := newScheme()
	for _, candidate := range append(described, &corev1.RangeAllocation{}) {
		kinds, _, err := scheme.ObjectKinds(candidate)
		if err != nil {
			return nil, err
		}
		if name := keyOf(kinds[0]); name == kind {
			object := reflect.New(reflect.TypeOf(candidate).Elem()).Interface().(runtime.Object)
			r.filler.Fill(object)
			return object, nil
		}
	}
	return nil, fmt.Errorf("no kind %q", kind)
}

// randomEntries uses keys that JavaScript treats differently from others: numbers, and names that all objects have.
func randomEntries(random *rand.Rand, text func() string) map[string]string {
	keys := []string{"", "0", "9", "10", "010", "-1", "__proto__", "constructor", "a/b", "\uffee", "\U0001f600", text()}
	entries := map[string]string{}
	for range random.Intn(len(keys)) {
		entries[keys[random.Intn(len(keys))]] = text()
	}
	return entries
}
