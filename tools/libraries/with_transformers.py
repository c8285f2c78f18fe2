"""Train GPT-2, BERT, Llama and T5 of random weights for three steps each, and generate.
pip: transformers"""
import torch
import transformers as tf

small = dict(vocab_size=99, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64)
models = {
    'GPT-2': lambda: tf.GPT2LMHeadModel(tf.GPT2Config(vocab_size=99, n_embd=32, n_layer=2, n_head=4, n_positions=64)),
    'BERT': lambda: tf.BertForMaskedLM(tf.BertConfig(**small)),
    'Llama': lambda: tf.LlamaForCausalLM(tf.LlamaConfig(**small, num_key_value_heads=2)),
    'T5': lambda: tf.T5ForConditionalGeneration(tf.T5Config(vocab_size=99, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4,
                                                            decoder_start_token_id=0)),
}
for name, make in models.items():
    torch.manual_seed(0)
    model, tokens = make().train(), torch.randint(3, 99, (4, 16))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for _ in range(3):
        loss = model(input_ids=tokens, labels=tokens).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.)
        optimizer.step()
        print(name, loss.item())
    if name in ('GPT-2', 'Llama', 'T5'):
        print(name, model.eval().generate(tokens[:1], max_new_tokens=8, do_sample=False, pad_token_id=0).tolist())
