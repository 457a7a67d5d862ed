"""The operations that a servable may have, by the place where they stand.

The first three are what `export` writes, and nothing else: the command

    python -m tests.strangers.exports

prints them anew, and a test holds them against it. The others are for activations, norms and
searches of one's own: they compute numbers from numbers.
"""


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


IN_GRAPH = _names("""
    Const HashTableV2 NoOp PartitionedCall Placeholder ReadVariableOp SentencepieceOp
    StatefulPartitionedCall VarHandleOp
""")
"""Of the graph itself: inputs, variables, vocabularies, and calls of functions."""

IN_FUNCTIONS = _names("""
    Add AddV2 All Any ArgMax AsString Assert BatchMatMulV2 BiasAdd BitwiseAnd BitwiseXor BroadcastTo
    Cast ConcatV2 Const Cos Cumsum DenseBincount Empty EnsureShape Equal ExpandDims Fill FloorDiv
    FloorMod GatherV2 Greater GreaterEqual HashTableV2 Identity IdentityN If InplaceUpdate Less
    LessEqual Log Log1p LogSoftmax LogicalAnd LogicalNot LogicalOr LookupTableFindV2
    LookupTableImportV2 LowerBound MatMul Max Maximum Mean Minimum Mul Neg NoOp NotEqual OneHot Pack
    Pad PadV2 Pow Prod RaggedRange RaggedTensorToTensor Range ReadVariableOp RealDiv
    RegexSplitWithOffsets Relu Reshape RightShift Rsqrt SelectV2 SentencepieceDetokenizeOp
    SentencepieceOp SentencepieceTokenizeOp Shape Sin Size Softmax
    SparseSoftmaxCrossEntropyWithLogits Split SplitV Square Squeeze StatefulPartitionedCall
    StatelessIf StatelessWhile StaticRegexFullMatch StaticRegexReplace StridedSlice StringJoin
    StringLength StringSplitV2 StringToNumber Sub Sum TensorScatterUpdate Tile TopKV2 Transpose
    UnicodeDecode UnicodeEncode UnicodeTranscode Unpack UnsortedSegmentJoin UnsortedSegmentMax
    UpperBound Where While WordpieceTokenizeWithOffsets ZerosLike
""")
"""Of the functions: subwords, the model, the search.

What InplaceUpdate may write to is in `written_in_place`, what LookupTableImportV2 may take in
`tables`.
"""

IN_SAVER = _names("""
    AssignVariableOp Const DisableCopyOnRead Identity MergeV2Checkpoints NoOp Pack ReadVariableOp
    RestoreV2 SaveV2 Select ShardedFilename StaticRegexFullMatch StringJoin
""")
"""Of the two functions that TensorFlow adds to every SavedModel, for loaders in C++.

They read and write files. Nothing but the saver's own two nodes may call them.
"""

OF_ONES_OWN = _names("""
    Abs Acos Acosh AddN ArgMin Asin Asinh Atan Atan2 Atanh BatchMatMulV3 BesselI0 BesselI1 Bitcast
    BitwiseOr BroadcastArgs Ceil Cholesky ClipByValue Conv2D Cosh Cumprod CumulativeLogsumexp
    DepthwiseConv2dNative Diag Digamma DivNoNan Einsum Elu Erf Erfc Erfinv EuclideanNorm Exp Expm1
    Floor GatherNd Igamma Igammac InvertPermutation IsFinite IsInf IsNan L2Loss LeakyRelu LeftShift
    Lgamma LinSpace MatrixBandPart MatrixDiagPartV3 MatrixDiagV3 MatrixSetDiagV3 Min MirrorPad Mod
    MulNoNan NextAfter OnesLike PopulationCount PreventGradient Rank Reciprocal Relu6 ReverseV2 Rint
    Roll Round ScatterNd SegmentMaxV2 SegmentMean SegmentMinV2 SegmentProdV2 SegmentSumV2 Select
    Selu ShapeN Sigmoid Sign Sinh Slice Softplus Softsign Sqrt SquaredDifference
    StatelessMultinomial StatelessRandomGetKeyCounter StatelessRandomNormalV2
    StatelessRandomUniformFullIntV2 StatelessRandomUniformIntV2 StatelessRandomUniformV2
    StatelessShuffle StatelessTruncatedNormalV2 StopGradient Tan Tanh TensorScatterAdd
    TensorScatterMax TensorScatterMin TensorScatterSub TruncateDiv TruncateMod Unique UniqueV2
    UnravelIndex UnsortedSegmentMin UnsortedSegmentProd UnsortedSegmentSum Xdivy Xlog1py Xlogy
""")
"""Of functions too: mathematics, without any memory of its own.

Each takes and gives numbers, has no state, and no texts but names of ways to compute.
"""

RANDOM = _names("Multinomial RandomStandardNormal RandomUniform RandomUniformInt TruncatedNormal")
"""Of functions too: random numbers; their state is the generator's."""

STRUCTURE = _names("""
    EmptyTensorList PartitionedCall TensorListConcatV2 TensorListElementShape TensorListFromTensor
    TensorListGather TensorListGetItem TensorListLength TensorListPopBack TensorListPushBack
    TensorListReserve TensorListResize TensorListSetItem TensorListStack
""")
"""Of functions too: calls, and lists of tensors, such as the `tf.TensorArray` of a loop."""
