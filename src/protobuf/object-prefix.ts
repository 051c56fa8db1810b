/** The bytes before every object in protobuf, stored or sent: apimachinery's pkg/runtime/serializer/protobuf. */
export const protobufPrefix = Buffer.from('k8s\0')
