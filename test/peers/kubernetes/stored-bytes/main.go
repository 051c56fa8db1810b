// stored-bytes reads and writes objects as kube-apiserver stores them in etcd. It uses the types of k8s.io/api and the
// protobuf serializer of apimachinery, and encodes for version v1.
//
//	stored-bytes make KIND SEED COUNT   writes COUNT random objects of the kind to stdout
//	stored-bytes read                   reads values from stdin and writes one line of JSON for each to stdout
//	stored-bytes fields                 writes src/protobuf/go-fields.ts to stdout
//
// Each value follows its length, which is four bytes, big-endian.
package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
)

// reading is the line of JSON for one value. Encoded is the value as kube-apiserver would store it again. Object is
// omitted if the object has no JSON: managedFields contain JSON that is not checked when they are decoded.
type reading struct {
	Object  json.RawMessage `json:"object,omitempty"`
	Encoded []byte          `json:"encoded,omitempty"`
	Error   string          `json:"error,omitempty"`
}

type storage struct {
	serializer *protobuf.Serializer
	encoder    runtime.Encoder
}

func main() {
	out := bufio.NewWriter(os.Stdout)
	err := run(os.Args[1:], bufio.NewReader(os.Stdin), out)
	if err == nil {
		err = out.Flush()
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "stored-bytes: %v\n", err)
		os.Exit(1)
	}
}

func run(args []string, in io.Reader, out io.Writer) error {
	switch {
	case len(args) == 4 && args[0] == "make":
		seed, err := strconv.ParseInt(args[2], 10, 64)
		if err != nil {
			return err
		}
		count, err := strconv.Atoi(args[3])
		if err != nil {
			return err
		}
		return makeValues(newStorage(), args[1], seed, count, out)
	case len(args) == 1 && args[0] == "read":
		return readValues(newStorage(), in, out)
	case len(args) == 1 && args[0] == "fields":
		return writeFields(out)
	default:
		return errors.New("usage: stored-bytes make KIND SEED COUNT | stored-bytes read | stored-bytes fields")
	}
}

func newScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	for _, addToScheme := range groups {
		utilruntime.Must(addToScheme(scheme))
	}
	return scheme
}

func newStorage() storage {
	scheme := newScheme()
	objects := protobuf.NewSerializer(scheme, scheme)
	return storage{
		serializer: objects,
		encoder:    serializer.NewCodecFactory(scheme).EncoderForVersion(objects, schema.GroupVersions(scheme.PrioritizedVersionsAllGroups())),
	}
}

func (s storage) encode(object runtime.Object) ([]byte, error) {
	var buffer bytes.Buffer
	err := s.encoder.Encode(object, &buffer)
	return buffer.Bytes(), err
}

func makeValues(s storage, kind string, seed int64, count int, out io.Writer) error {
	random := newRandomObjects(seed)
	for range count {
		object, err := random.next(kind)
		if err != nil {
			return err
		}
		value, err := s.encode(object)
		if err != nil {
			return err
		}
		if err := binary.Write(out, binary.BigEndian, uint32(len(value))); err != nil {
			return err
		}
		if _, err := out.Write(value); err != nil {
			return err
		}
	}
	return nil
}

func readValues(s storage, in io.Reader, out io.Writer) error {
	lines := json.NewEncoder(out)
	for {
		var length uint32
		if err := binary.Read(in, binary.BigEndian, &length); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		value := make([]byte, length)
		if _, err := io.ReadFull(in, value); err != nil {
			return err
		}
		if err := lines.Encode(s.read(value)); err != nil {
			return err
		}
	}
}

func (s storage) read(value []byte) reading {
	object, _, err := s.serializer.Decode(value, nil, nil)
	if err != nil {
		return reading{Error: err.Error()}
	}
	encoded, err := s.encode(object)
	if err != nil {
		return reading{Error: err.Error()}
	}
	served, err := json.Marshal(object)
	if err != nil {
		served = nil
	}
	return reading{Object: served, Encoded: encoded}
}
